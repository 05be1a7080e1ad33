// Checks that a run makes of itself (docs/training.md, "Guards"). Inside train/ only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi/communicator.h"
#include "record/run.h"
#include "spec/training_spec.h"
#include "train/guard/output_ranges.h"
#include "train/state/session.h"

namespace bitrift::train {

/// How many actions a result lists; it counts the others.
constexpr std::int64_t most_actions = 100;

/// Guards only read: a run computes the same bits with and without them, unless they act (see Rollback). Not
/// collective.
class Guards {
 public:
  /// rank: of this process. overflow_is_usual: under a dynamic loss scale a loss or gradient that is not
  /// finite does not raise an alarm.
  Guards(const record::TrainingSpec& spec, int rank, bool overflow_is_usual);

  /// This process is this rank from here on.
  void work_as(int rank) noexcept { rank_ = rank, prints_.clear(); }

  /// What guards have learned in earlier steps and no checkpoint holds. A run that goes back restores it.
  struct Memory {
    std::map<std::string, RecentMean> updates;  ///< update_jump: sizes, by parameter
    std::map<std::string, OutputRanges::Range> ranges;
  };
  [[nodiscard]] Memory memory() const { return {updates_, outputs_.ranges}; }
  void remember_again(const Memory& then) { updates_ = then.updates, outputs_.ranges = then.ranges; }

  [[nodiscard]] bool any() const noexcept { return any_; }
  [[nodiscard]] bool stops() const noexcept { return any_ && spec_.on_alarm == record::OnAlarm::stop; }
  /// Whether an alarm has the run go back.
  [[nodiscard]] bool go_back() const noexcept { return any_ && spec_.go_back(); }
  [[nodiscard]] const record::GuardSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] bool wants_gradient_norm() const noexcept {
    return spec_.gradient_norm > 0 || spec_.gradient_jump > 0;
  }

  /// nonfinite, loss_spike. `loss` is known on all ranks: rank 0 reports it. Moves progress.guard_*.
  void see_loss(double loss, Progress& progress);
  /// gradient_norm, gradient_jump: the total 2-norm of the means, before clipping; rank 0 reports it. Moves
  /// progress.guard_norms.
  void see_gradient_norm(double norm, Progress& progress);
  /// activation_range: has to see the outputs of layers in training; nullptr: it is off.
  [[nodiscard]] nn::OutputTap* outputs() noexcept { return spec_.activation_range > 0 ? &outputs_ : nullptr; }
  /// activation_range: step number `step` has computed its gradients.
  void see_outputs(std::int64_t step);
  /// update_bound, update_jump: before and after the optimizer updates what this rank holds, in step number
  /// `step`.
  void before_update(const Optimizer& optimizer);
  void see_update(const Optimizer& optimizer, double learning_rate, std::int64_t step);
  /// nonfinite and moment_bound, after the optimizer's step, for each tensor of this rank.
  void see_state(Session& session, std::int64_t step);
  /// fingerprints: of the tensors of this rank after `step` steps, and before the next one. Nothing is
  /// compared if steps were undone in between. With the action reload, compare() gives tensors that differ
  /// their values of remember() again.
  void remember(Session& session, std::int64_t step);
  void compare(Session& session, std::int64_t step);
  /// replicas: compares the parameters of this rank with those of `peers`, which hold the same ones. again:
  /// this rank has checked the step before and only takes part. Collective over them if the guard is on.
  void see_replicas(const Optimizer& optimizer, const mpi::Communicator& peers, std::int64_t step,
                    bool again);
  /// recompute: step number `step` was computed twice.
  void see_recomputed(bool equal, std::int64_t step);
  /// checksums: paths whose bytes do not match.
  void see_checksums(const std::vector<std::string>& paths);

  /// At most 100, in the order in which they came.
  [[nodiscard]] const std::vector<record::Alarm>& alarms() const noexcept { return alarms_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// The steps in which this rank clipped outputs or reloaded tensors.
  [[nodiscard]] const std::vector<std::int64_t>& acted() const noexcept { return acted_; }
  /// The first alarm of a step since the last call; "" if there is none.
  [[nodiscard]] std::string take_new() { return std::exchange(new_, ""); }
  /// Forgets alarms and earlier steps: before a load.
  void clear();

 private:
  void note_act(std::int64_t step);
  void raise(record::Guard guard, std::int64_t step, const std::string& tensor, double value, double limit);
  void see_tensor(const StateTensor& tensor, std::int64_t step);
  [[nodiscard]] bool sees_updates() const noexcept { return spec_.update_bound || spec_.update_jump > 0; }
  /// Raises an alarm if the value is beyond `factor` times the mean of the earlier ones, and adds it to the
  /// mean. mine: whether this rank is the one that reports it.
  void see_recent(record::Guard guard, double factor, double value, RecentMean& recent, std::int64_t step,
                  const std::string& tensor, bool mine);

  record::GuardSpec spec_;
  record::OptimizerSpec optimizer_;
  int rank_;
  bool overflow_is_usual_;
  bool any_;
  double batch_size_;
  std::vector<record::Alarm> alarms_;
  std::int64_t count_ = 0;
  std::string new_;
  std::vector<torch::Tensor> before_;  // parameters before an update; undefined: not held
  std::map<std::string, RecentMean> updates_;
  OutputRanges outputs_;
  std::vector<std::int64_t> acted_;  // steps
  struct Print {
    std::uint64_t digest = 0;         // XXH3
    std::vector<std::uint8_t> bytes;  // with the action reload
  };
  std::map<std::string, Print> prints_;  // of tensors by path, after `printed_` steps
  std::int64_t printed_ = -1;
};

/// The most that step t of Adam can move an element, divided by the learning rate: with m and v the moments
/// of gradients g_i, and r = beta1^2 / beta2, the Cauchy-Schwarz inequality gives
///     |m_t| = (1 - beta1) |sum beta1^(t-i) g_i| <= (1 - beta1) sqrt(sum r^(t-i)) sqrt(v_t / (1 - beta2)),
/// so the update |m_t / (1 - beta1^t)| / sqrt(v_t / (1 - beta2^t)) is at most
///     (1 - beta1) / (1 - beta1^t) sqrt((1 - beta2^t) / (1 - beta2)) sqrt((1 - r^t) / (1 - r)).
/// Kingma and Ba (ICLR 2015, section 2.1) discuss the case of one gradient that is not 0.
[[nodiscard]] double largest_update(const record::OptimizerSpec& optimizer, std::int64_t t);

/// Which metric of an evaluation, by replica, is NaN or infinite; "" when none is. overflow_is_usual: under a
/// dynamic loss scale a step may overflow and is skipped, and then the training loss does not count.
[[nodiscard]] std::string nonfinite_metric(const std::vector<record::Evaluation>& replicas,
                                           bool overflow_is_usual);

/// Sets the alarms of all ranks in the result, by step, then rank, and the steps in which ranks clipped
/// outputs or reloaded tensors. Collective.
void gather_alarms(const Guards& guards, const mpi::Communicator& ranks, record::RunResult& result);

}  // namespace bitrift::train
