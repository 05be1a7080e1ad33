// The contents of a Trainer. Inside train/ only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/reader.h"
#include "dataset/dataset.h"
#include "record/recovery.h"
#include "record/run.h"
#include "spec/mesh_spec.h"
#include "spec/training_spec.h"
#include "train/fault/compute_flips.h"
#include "train/fault/faulty_links.h"
#include "train/fault/kill_point.h"
#include "train/golden/golden_states.h"
#include "train/golden/trajectory.h"
#include "train/guard/guards.h"
#include "train/parallel/optimizer_shard.h"
#include "train/parallel/rank_layout.h"
#include "train/parallel/strategy.h"
#include "train/recover/team.h"
#include "train/state/background_save.h"
#include "train/state/session.h"
#include "train/state/state_copy.h"
#include "train/step/autocast.h"
#include "train/step/loss_scaler.h"

namespace bitrift::train {

/// The result of a step, the same on all ranks.
struct StepResult {
  BatchResult batch;
  bool stopped = false;  ///< the loss is not finite and loss scaling does not excuse it: nothing was updated
  bool leave = false;    ///< some rank was asked to end the run early
};

/// The session, and the objects that work on it. Everything but the session is fixed for the life of the
/// process, derived from it, or made again when the team has lost a member. A process without work has no
/// layout, session or strategy.
struct TrainerState {
  /// fresh: with initial values; otherwise a load fills it. Collective over the working ranks.
  TrainerState(record::TrainingSpec spec_, record::Parallel parallel_, Team team_,
               record::RecoverySpec recovery_, std::shared_ptr<const nn::Dataset> data_, bool fresh);

  /// Builds the layers of a waiting process and computes gradients once, so that its first step is as fast as
  /// that of others. Does nothing if the run has several stages or uses cards, because it is not known which
  /// of them the process will get. Local.
  void warm_up();
  /// Sets up the work as the team's active group shares it. Drops the earlier setup, and the session too if
  /// this rank gets other layers. Collective over that group.
  void spread(const ReplicaMap& map, const std::optional<record::MeshSpec>& mesh);
  /// Sums gradients on this mesh of the same chips from the next step on. Local, the same on all working
  /// ranks; throws Error as plan_share() does, and then nothing has changed.
  void route(const record::MeshSpec& other);
  /// The effect of the links that have failed by the current step: a dead one is left out of the schedule.
  /// Notes them in the result. Why the run cannot continue; "": it can. Local, the same on all working ranks.
  [[nodiscard]] std::string meet_failed_links(record::RunResult& result);
  /// After a run: links that failed in it work again. Local, the same on all working ranks.
  void restore_links();
  /// The mesh with its present chips, and the links that were dead when the run began.
  [[nodiscard]] std::optional<record::MeshSpec> mesh_with_first_links() const;
  /// Drops the objects that send and receive; the session stays. Local; no part of it may still be in
  /// progress on a group that was not revoked.
  void stop_work() { exchange_.reset(), strategy_.reset(), layout_.reset(); }
  /// Every call of the team's groups that is in progress fails, on every rank. Local.
  void revoke_work() const noexcept;

  [[nodiscard]] const Layout& layout() const noexcept { return *layout_; }
  [[nodiscard]] Session& session() noexcept { return *session_; }
  [[nodiscard]] Strategy& strategy() noexcept { return *strategy_; }

  [[nodiscard]] std::int64_t steps_per_epoch() const { return data->train_size() / spec.batch_size; }
  [[nodiscard]] std::int64_t total_steps() const { return steps_per_epoch() * spec.epochs; }
  /// Samples of the batch that is next. Valid until the next call.
  [[nodiscard]] std::span<const std::int64_t> next_batch();
  /// Forward, backward and, when the loss is finite, the update; counts the step. leave: this rank was asked
  /// to end the run early. Collective up to the decision, local after it.
  StepResult step(std::span<const std::int64_t> batch, bool leave);
  /// The collective part after a step, which may have stopped the run; may be called again for the same step.
  /// The first alarm, by rank, after which a guard stops the run or acts; "" when the run continues.
  [[nodiscard]] std::string settle(bool stopped);
  /// The step that was undone is over without an update: the place in the data and the schedule move on, and
  /// the epoch's mean loss and accuracy so far count for its batch. Local.
  StepResult pass_over(const StepResult& undone);
  /// The state was overwritten by an earlier one. Local.
  void went_back() noexcept { settled_ = compared_ = -1; }
  /// State digest of each replica. Collective.
  [[nodiscard]] std::vector<std::string> digests();
  /// Replica 0's parameters, under ddp its buffers, and its optimizer state when `with_optimizer`, to all
  /// replicas. Collective.
  void share_state(bool with_optimizer);

  /// Returns on all living ranks, or throws RankFailed on all: also if one of them noticed a death. For a
  /// team that may lose members, where all must have come this far. Collective over the working ranks.
  void stand_together();
  /// Whether stand_together() has thrown here since the last call of this: then this rank has already
  /// answered the question with which a recovery begins. Local.
  [[nodiscard]] bool asked_together() noexcept { return std::exchange(asked_together_, false); }

  /// A step was begun but not decided: undoes the changes of its forward pass. Local.
  void undo_step();
  /// Whether such a step lacks only the decision.
  [[nodiscard]] bool prepared() const noexcept { return prepared_; }
  /// Carries out the decision of other ranks, as step() would have done. Local, but collective over the ranks
  /// of a stage where the optimizer state is sharded.
  StepResult apply(const Decision& decision);
  [[nodiscard]] const Decision& last_decision() const noexcept { return last_decision_; }
  /// The given structures get the values of a run that begins. Local.
  void forget(const std::vector<record::Structure>& structures);
  /// costs that balance the stages of a rank that joins later
  std::vector<double> costs;

  record::TrainingSpec spec;
  record::Parallel parallel;
  Team team;
  record::RecoverySpec recovery;
  ReplicaMap map;                        ///< of the active group
  std::optional<record::MeshSpec> mesh;  ///< the chips of the active group
  std::shared_ptr<const nn::Dataset> data;
  Precision precision;
  LossScaler scaler;
  Guards guards;
  KillPoint kill_point;
  FaultyLinks links;
  ComputeFlips flips;
  BackgroundSave saves;
  std::optional<ckpt::Reader> base_file;
  StateCopy base;          ///< see Trainer::remember_base()
  bool regrouped = false;  ///< whether other ranks work than those that remembered the base
  /// Tensors that the last reset() read from a file; absent after a load() of everything.
  std::optional<std::vector<std::string>> altered;
  std::vector<std::string> changed;  ///< tensors that differed from `base` when loaded
  /// By RunOptions::order; see RunOptions::keep_golden.
  std::map<std::uint64_t, Trajectory> golden;
  GoldenStates golden_states;  ///< see RunOptions::states

 private:
  void start_work(bool fresh);
  void make_session(const Layout& layout, const nn::Placement& placement, bool fresh);
  void begin_step();
  [[nodiscard]] bool exchanges_norms() const {
    return spec.optimizer.clip_norm > 0 || guards.wants_gradient_norm();
  }
  [[nodiscard]] bool update(const Decision& decision);
  void expect_batches(std::span<const std::int64_t> batch);

  std::unique_ptr<Layout> layout_;
  std::unique_ptr<Session> session_;
  std::pair<int, int> cut_ = {0, 0};  // stage and stages of the session
  std::unique_ptr<Strategy> strategy_;
  std::optional<ParameterExchange> exchange_;  // where the optimizer state is sharded

  bool asked_together_ = false;
  bool begun_ = false, prepared_ = false;
  std::vector<torch::Tensor> buffers_, buffers_before_;  // tensors of the session; copies from before the
                                                         // step
  Decision last_decision_;
  std::int64_t settled_ = -1;   // step whose state the guards have checked
  std::int64_t compared_ = -1;  // step after which replicas were compared

  // Derived from the session's seed and epoch; sorting an epoch takes longer than comparing two numbers.
  std::vector<std::int64_t> order_;
  std::optional<std::pair<std::uint64_t, std::int64_t>> order_of_;
};

}  // namespace bitrift::train
