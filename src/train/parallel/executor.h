// How one replica takes micro-batches forward and back. Inside train/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "mpi/communicator.h"
#include "nn/layer/model.h"
#include "train/step/autocast.h"
#include "train/step/feed.h"
#include "train/step/step_input.h"

namespace bitrift::train {

/// The result of one replica's micro-batches.
struct Tally {
  std::vector<double> losses;  ///< of each micro-batch, before any scaling; or one sum in an evaluation
  double capped = 0;           ///< in an evaluation: see LossSums
  std::int64_t asked = 0, correct = 0;
};

/// Samples in one forward pass of an evaluation, under every strategy, so that the same kernels see the same
/// shapes: 256, or fewer so that at most 2^22 input elements are taken at once, but at least one.
[[nodiscard]] std::int64_t evaluation_batch(const std::vector<std::int64_t>& input_shape);
/// How many forward passes an evaluation takes.
[[nodiscard]] std::int64_t evaluation_batches(const nn::Dataset& data);

/// A batch's inputs as the first layer takes them: on the device, floating ones in the parameters' type.
[[nodiscard]] torch::Tensor stage_input(const torch::Tensor& inputs, const nn::Placement& placement);

/// Collective over the stages of a replica. The stage outlives it.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Gradients of mean losses, each divided by the number of micro-batches, are added in each parameter in
  /// ascending micro-batch order. `before_last_backward` is called before the backward pass that completes
  /// every gradient. Only the last stage returns a tally. micro[i].batch may be undefined if needs_batches()
  /// is false. Only the last stage returns a tally. micro[i].batch may be undefined where needs_batches()
  /// says no.
  [[nodiscard]] virtual Tally run(const StepInput& step, int replica, const std::vector<MicroBatch>& micro,
                                  const std::function<void()>& before_last_backward) = 0;
  /// The whole test set in evaluation mode. Only the last stage returns a tally.
  [[nodiscard]] virtual Tally evaluate(int replica, const nn::Dataset& data) = 0;
  /// Whether run() uses inputs or targets here: a stage in the middle does so only for auxiliary heads.
  [[nodiscard]] virtual bool needs_batches() const = 0;
};

}  // namespace bitrift::train
