// A parallel strategy: how the work of a step is distributed over ranks. Inside train/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "nn/layer/model.h"
#include "spec/parallel.h"
#include "train/fault/compute_flips.h"
#include "train/fault/faulty_links.h"
#include "train/fault/kill_point.h"
#include "train/parallel/executor.h"
#include "train/parallel/rank_layout.h"
#include "train/parallel/reducer.h"
#include "train/step/feed.h"

namespace bitrift::train {

/// The result of a batch, the same on all ranks.
struct BatchResult {
  double loss =
      0;  ///< mean in double of the losses of all micro-batches, ascending by (replica, micro-batch)
  std::int64_t asked = 0, correct = 0;  ///< targets of the batch, and how many the logits had right
};
constexpr auto keys_of(std::type_identity<BatchResult>) {
  using record::Key;
  return std::tuple(Key{"loss", &BatchResult::loss}, Key{"asked", &BatchResult::asked},
                    Key{"correct", &BatchResult::correct});
}

/// The result of the test set for one replica.
struct TestResult {
  double loss = 0;         ///< sum in double of the sums of each evaluation batch, divided by the targets
  double capped_loss = 0;  ///< the same of LossSums::capped
  double accuracy = 0;     ///< right answers / targets
  std::int64_t targets = 0;
};

/// Everything that ranks must know of each other before the update. The update is local after that, unless
/// they shard the optimizer state.
struct Decision {
  BatchResult batch;
  bool bad_gradient = false;  ///< whether on some rank, see LossScaler
  bool leave = false;         ///< whether some rank was asked to end the run early
  std::vector<double> norms;  ///< of this replica's gradients by stage, then tensor; empty unless exchanged
};
constexpr auto keys_of(std::type_identity<Decision>) {
  using record::Key;
  return std::tuple(Key{"batch", &Decision::batch}, Key{"bad_gradient", &Decision::bad_gradient},
                    Key{"leave", &Decision::leave}, Key{"norms", &Decision::norms});
}

/// What a rank itself knows of a step before the decision.
struct Vote {
  bool bad_gradient = false, leave = false;
  std::vector<double> norms = {};  ///< of its gradients by tensor; empty unless exchanged
};

/// The settings from which a strategy is made.
struct StrategyOptions {
  int ahead = 0;                ///< batches that a thread prepares
  bool exchange_norms = false;  ///< decide() gathers the norms of gradients
};

/// An executor for each replica (the whole model, or the stages of a pipeline) and a reducer over replicas.
/// Serial is one replica of one stage. Stage, layout and data outlive it.
class Strategy {
 public:
  /// Collective where norms are exchanged.
  Strategy(nn::Stage& stage, const Layout& layout, const record::Parallel& parallel, const nn::Dataset& data,
           const Precision& precision, const StrategyOptions& options, KillPoint& kill_point,
           FaultyLinks& links, ComputeFlips& flips);

  /// Forward and backward of one global batch. Leaves in each parameter the gradient of the mean loss over
  /// the batch (times step.loss_scale), the same on all replicas; buffers are replica 0's under ddp, each
  /// replica's own under horovod. Gradients must be undefined before the call. Collective. The tallies are of
  /// the replicas that this rank computes, for decide().
  [[nodiscard]] std::vector<Tally> gradients(const StepInput& step);
  /// One collective. When it returns on one rank, every rank has called it.
  [[nodiscard]] Decision decide(const std::vector<Tally>& tallies, const Vote& mine);
  /// The whole test set in evaluation mode, by replica, the same on all ranks. Collective.
  [[nodiscard]] std::vector<TestResult> evaluate();

  /// Calls `work` with each replica that this rank computes, ascending; during the call the stage's buffers
  /// are that replica's own. Afterwards they are those of the first.
  void for_each_replica(const std::function<void(int replica)>& work);
  /// For a run on a mesh, see Reducer::route(). The caller may change the layout's mesh after this.
  void route(const record::MeshSpec& mesh) { reducer_->route(mesh); }
  /// The next task of the thread that prepares batches; see Feed.
  void expect(const StepInput& step);
  [[nodiscard]] bool wants_more() const { return feeds_.front()->wants_more(); }
  [[nodiscard]] std::size_t waiting() const { return feeds_.front()->waiting(); }

 private:
  void drop_gradients();
  void send_buffers();
  void save_buffers(std::size_t index);
  void load_buffers(std::size_t index);

  nn::Stage& stage_;
  const Layout& layout_;
  const nn::Dataset& data_;
  int micro_batches_;
  bool shared_buffers_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Reducer> reducer_;
  std::vector<std::unique_ptr<Feed>> feeds_;             // of layout_.replicas
  std::vector<torch::Tensor> buffers_;                   // of the stage
  std::vector<std::vector<torch::Tensor>> own_buffers_;  // where a rank computes several: [replica][buffer]
  std::vector<std::size_t> norm_counts_;                 // by rank; empty unless exchanged
};

/// Bytes of these tensors from rank `root` to all others, as one message for each 64 MiB. Collective.
void broadcast_tensors(const std::vector<torch::Tensor>& tensors, const mpi::Communicator& communicator,
                       int root);

}  // namespace bitrift::train
