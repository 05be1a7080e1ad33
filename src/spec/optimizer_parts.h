// How parameters are updated: optimizer, schedule, guards.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "record/run.h"
#include "spec/part.h"

namespace bitrift::record {

enum class OptimizerName { sgd, adam, adamw };
constexpr EnumNames<3> names_of(OptimizerName) { return {"optimizer", {"sgd", "adam", "adamw"}}; }

struct OptimizerSpec {
  OptimizerName name = OptimizerName::sgd;
  double learning_rate = 0;  ///< > 0
  double momentum = 0;       ///< sgd
  bool nesterov = false;     ///< sgd with momentum
  double weight_decay = 0;   ///< sgd, adam: added to the gradient; adamw: decoupled, 0.01 by default
  double beta1 = 0.9;        ///< adam, adamw
  double beta2 = 0.999;      ///< adam, adamw
  double epsilon = 1e-8;     ///< adam, adamw
  double clip_norm = 0;      ///< > 0: gradients are scaled down to this total 2-norm
  bool operator==(const OptimizerSpec&) const = default;
  [[nodiscard]] bool is_adam() const { return name != OptimizerName::sgd; }
};

enum class ScheduleName { constant, step, cosine, plateau };
constexpr EnumNames<4> names_of(ScheduleName) {
  return {"schedule", {"constant", "step", "cosine", "plateau"}};
}

/// The metric in which a plateau is seen.
enum class Monitor { test_loss, train_loss, test_accuracy };
constexpr EnumNames<3> names_of(Monitor) {
  return {"metric to monitor", {"test_loss", "train_loss", "test_accuracy"}};
}

/// How the learning rate changes (docs/training.md, "Schedules").
struct ScheduleSpec {
  ScheduleName name = ScheduleName::constant;
  int every = 0;                         ///< step: epochs
  double gamma = 0.1;                    ///< step: factor
  std::int64_t warmup_steps = 0;         ///< cosine
  std::int64_t steps = 0;                ///< cosine: number of steps to its end; 0: the end of the spec's
                                         ///< epochs
  double min_learning_rate = 0;          ///< cosine, plateau
  double factor = 0.1;                   ///< plateau
  int patience = 10, cooldown = 0;       ///< plateau: evaluations
  double threshold = 1e-4;               ///< plateau: relative
  Monitor monitor = Monitor::test_loss;  ///< plateau
  bool operator==(const ScheduleSpec&) const = default;
};

/// Checks that a run makes of itself; all off by default (docs/training.md, "Guards").
struct GuardSpec {
  bool nonfinite = false;       ///< loss, and state after a step
  double loss_spike = 0;        ///< > 0: a loss beyond this many times the mean of the last losses
  double gradient_norm = 0;     ///< > 0: a larger total 2-norm of the gradients
  double gradient_jump = 0;     ///< > 0: a norm beyond this many times the mean of the last norms
  double activation_range = 0;  ///< > 0: an output beyond this many times the largest one so far
  bool moment_bound = false;    ///< He et al., ISCA 2023: bound on the optimizer's first moment
  bool update_bound = false;    ///< adam, adamw: the most that a step can move an element
  double update_jump = 0;       ///< > 0: a parameter's update beyond this many times its last ones
  bool fingerprints = false;    ///< state that changes between two steps
  bool replicas = false;        ///< parameters that differ between replicas after a step
  bool recompute = false;       ///< every step is computed twice, and both results are compared
  bool checksums = false;       ///< every tensor's CRC-32C when a file is loaded
  OnAlarm on_alarm = OnAlarm::record;
  std::int64_t rollback_every = 1;  ///< rollback: steps from one kept state to the next
  /// Whether an alarm has the run go back.
  [[nodiscard]] bool go_back() const noexcept {
    return on_alarm == OnAlarm::skip || on_alarm == OnAlarm::rollback;
  }
  /// Whether an alarm changes what the run computes.
  [[nodiscard]] bool act() const noexcept {
    return go_back() || on_alarm == OnAlarm::clip || on_alarm == OnAlarm::reload;
  }
  /// The guards that are on, each with its factor or limit; 0 if it has none.
  [[nodiscard]] std::vector<std::pair<Guard, double>> chosen() const;
  /// Whether some guard is on.
  [[nodiscard]] bool any() const { return !chosen().empty(); }
  bool operator==(const GuardSpec&) const = default;
};

/// Whether the guard has a factor or a limit.
[[nodiscard]] bool has_limit(Guard guard) noexcept;

/// Why the guard does not go with the optimizer; "" if it does.
[[nodiscard]] std::string needs_adam(Guard guard, const OptimizerSpec& optimizer);

[[nodiscard]] OptimizerSpec read_optimizer(const Part& part);
[[nodiscard]] ScheduleSpec read_schedule(const Part& part);
[[nodiscard]] GuardSpec read_guards(const Part& part, const OptimizerSpec& optimizer);
[[nodiscard]] Json to_json(const OptimizerSpec& optimizer);
[[nodiscard]] Json to_json(const ScheduleSpec& schedule);

[[nodiscard]] Json to_json(const GuardSpec& guards);

}  // namespace bitrift::record
