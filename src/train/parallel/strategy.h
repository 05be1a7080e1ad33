// A parallel strategy: how the work of a step is spread over ranks. Inside train/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "nn/layer/model.h"
#include "spec/parallel.h"
#include "train/parallel/executor.h"
#include "train/parallel/rank_layout.h"
#include "train/parallel/reducer.h"
#include "train/step/feed.h"

namespace bitrift::train {

/// What a batch gave, the same on all ranks.
struct BatchResult {
  double loss =
      0;  ///< mean in double of the losses of all micro-batches, ascending by (replica, micro-batch)
  std::int64_t asked = 0, correct = 0;  ///< targets of the batch, and how many the logits had right
};

/// What the test set gave to one replica.
struct TestResult {
  double loss = 0;         ///< sum in double of the sums of each evaluation batch, divided by the targets
  double capped_loss = 0;  ///< the same of LossSums::capped
  double accuracy = 0;     ///< right answers / targets
  std::int64_t targets = 0;
};

/// An executor for each replica (the whole model, or the stages of a pipeline) and a reducer over replicas.
/// Serial is one replica of one stage. Stage, layout and data outlive it.
class Strategy {
 public:
  /// ahead: batches that a thread prepares.
  Strategy(nn::Stage& stage, const Layout& layout, const record::Parallel& parallel, const nn::Dataset& data,
           const Precision& precision, int ahead);

  /// Forward and backward of one global batch. Leaves in each parameter the gradient of the mean loss over
  /// the batch (times step.loss_scale), the same on all replicas; buffers are replica 0's under ddp, each
  /// replica's own under horovod. Gradients must be undefined before the call. Collective.
  [[nodiscard]] BatchResult gradients(const StepInput& step);
  /// The whole test set in evaluation mode, by replica, the same on all ranks. Collective.
  [[nodiscard]] std::vector<TestResult> evaluate();
  [[nodiscard]] Feed& feed() noexcept { return feed_; }

 private:
  void send_buffers();
  [[nodiscard]] BatchResult combine(const Tally& tally) const;

  nn::Stage& stage_;
  const Layout& layout_;
  const nn::Dataset& data_;
  int micro_batches_;
  bool shared_buffers_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Reducer> reducer_;
  Feed feed_;
};

/// Bytes of these tensors from rank `root` to all others, as one message for each 64 MiB. Collective.
void broadcast_tensors(const std::vector<torch::Tensor>& tensors, const mpi::Communicator& communicator,
                       int root);

}  // namespace bitrift::train
