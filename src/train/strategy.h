// Parallel strategies: how the work of a step is spread over ranks. Inside train/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mpi/communicator.h"
#include "nn/dataset.h"
#include "nn/model.h"
#include "train/reducer.h"

namespace bitrift::train {

/// What a batch gave, the same on all ranks.
struct BatchResult {
  double loss = 0;  ///< mean in double of the float32 micro-batch losses, ascending by (replica, micro-batch)
  std::int64_t correct = 0;  ///< right answers in the batch
};

/// What the test set gave: for data-parallel ranks, to this replica.
struct TestResult {
  double loss = 0;  ///< sum in double of the float32 sums of each evaluation batch, divided by the samples
  double accuracy = 0;  ///< right answers / samples
};

/// Samples in one forward pass of an evaluation, under every strategy, so that the same kernels see the same
/// shapes.
inline constexpr std::int64_t evaluation_batch = 256;

/// Collective calls, on a stage that outlives the strategy.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Forward and backward of one global batch. Leaves in each parameter the gradient of the mean loss over
  /// the batch, buffers alike on all replicas. Gradients must be undefined before the call.
  [[nodiscard]] virtual BatchResult gradients(const nn::Split& train,
                                              std::span<const std::int64_t> batch) = 0;
  /// The whole test set in evaluation mode.
  [[nodiscard]] virtual TestResult evaluate(const nn::Split& test) = 0;
};

/// Every rank holds the whole model and takes an equal contiguous part of the batch, in rank order; that part
/// is split again into micro-batches whose gradients accumulate in ascending order. Serial is one replica.
[[nodiscard]] std::unique_ptr<Strategy> make_replicated(nn::Stage& stage,
                                                        const mpi::Communicator& communicator,
                                                        std::unique_ptr<Reducer> reducer, int micro_batches);

/// Rank r holds stage r. GPipe (Huang et al., NeurIPS 2019): all forwards, then the backwards in ascending
/// micro-batch order, which adds gradients in the order of a serial run with the same micro-batches.
[[nodiscard]] std::unique_ptr<Strategy> make_pipeline(nn::Stage& stage, const mpi::Communicator& communicator,
                                                      int micro_batches);

}  // namespace bitrift::train
