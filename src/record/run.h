// One resumed run, as the driver asks for it and as a worker answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/fault/faults.h"
#include "record/json/keys.h"
#include "record/propagation_report.h"
#include "record/recovery.h"

namespace bitrift::record {

/// Metrics of one evaluation. Losses are means in double; accuracies are in 0..1.
/// train_* cover the steps of the epoch since the run began or the epoch did; absent when no step was taken.
struct Evaluation {
  std::int64_t epoch = 0;  ///< epochs completed in the whole training
  std::int64_t step = 0;   ///< optimizer steps since this run resumed
  std::optional<double> train_loss;
  std::optional<double> train_accuracy;
  /// Absent where a runner gives only metrics of its own.
  std::optional<double> test_loss = {};
  /// Absent where a runner does not give it: language models and regressors have none.
  std::optional<double> test_accuracy = {};
  /// Mean over the test targets of min(loss, ln(classes)): no target counts for more than a guess among all
  /// classes would. Absent in rows of versions that did not measure it, and where a runner does not give it.
  std::optional<double> test_capped_loss = {};
  /// Other test metrics that the runner reports, by name.
  std::map<std::string, double> lower_is_better = {};
  std::map<std::string, double> higher_is_better = {};
};
constexpr auto keys_of(std::type_identity<Evaluation>) {
  return std::tuple(
      Key{"epoch", &Evaluation::epoch}, Key{"step", &Evaluation::step},
      Key{"train_loss", &Evaluation::train_loss}, Key{"train_accuracy", &Evaluation::train_accuracy},
      Key{"test_loss", &Evaluation::test_loss}, Key{"test_accuracy", &Evaluation::test_accuracy},
      Key{"test_capped_loss", &Evaluation::test_capped_loss},
      Key{"lower_is_better", &Evaluation::lower_is_better, Presence::unless_default},
      Key{"higher_is_better", &Evaluation::higher_is_better, Presence::unless_default});
}

/// A check that a run makes of itself (docs/training.md, "Guards").
enum class Guard {
  nonfinite,
  loss_spike,
  gradient_norm,
  gradient_jump,
  activation_range,
  moment_bound,
  update_bound,
  update_jump,
  fingerprints,
  replicas,
  recompute,
  checksums,
};
constexpr EnumNames<12> names_of(Guard) {
  return {"guard",
          {"nonfinite", "loss_spike", "gradient_norm", "gradient_jump", "activation_range", "moment_bound",
           "update_bound", "update_jump", "fingerprints", "replicas", "recompute", "checksums"}};
}

/// What a guard reports.
struct Alarm {
  Guard guard = Guard::nonfinite;
  std::int64_t step = 0;  ///< of the whole training, 1-based; 0: when the file was loaded
  int rank = 0;           ///< whose state; what all ranks know is rank 0's
  std::string tensor;     ///< path, a layer's name for its outputs, or "" where no tensor is named
  double value = 0, limit = 0;
};
constexpr auto keys_of(std::type_identity<Alarm>) {
  return std::tuple(Key{"guard", &Alarm::guard}, Key{"step", &Alarm::step}, Key{"rank", &Alarm::rank},
                    Key{"tensor", &Alarm::tensor}, Key{"value", &Alarm::value}, Key{"limit", &Alarm::limit});
}

/// The effect of an alarm on the run, which is noted in any case.
enum class OnAlarm {
  record,    ///< none
  stop,      ///< the run ends
  skip,      ///< the step changes nothing but the place in the data and the schedule
  rollback,  ///< the run goes back to the last kept state, and computes its steps again
  clip,      ///< activation_range: the outputs are set to the limit that they passed
  reload,    ///< fingerprints: the tensor gets its values from before the change
};
constexpr EnumNames<6> names_of(OnAlarm) {
  return {"value of on_alarm", {"record", "stop", "skip", "rollback", "clip", "reload"}};
}

/// What a guard did after it raised an alarm.
struct GuardAction {
  OnAlarm action = OnAlarm::rollback;  ///< all but record and stop
  std::int64_t step = 0;               ///< whose alarm it was; of the whole training, 1-based
  std::int64_t to = 0;  ///< completed steps of the state that the run went back to; clip: step; reload: of
                        ///< the state that the tensor was taken from
  bool operator==(const GuardAction&) const = default;
};
constexpr auto keys_of(std::type_identity<GuardAction>) {
  return std::tuple(Key{"action", &GuardAction::action}, Key{"step", &GuardAction::step},
                    Key{"to", &GuardAction::to});
}

/// A fault in the harness itself, in one run (docs/campaign.md, "Drills"). All but `leak` are what the last
/// rank does in its first step.
enum class Drill {
  abort,
  segfault,
  raise,
  hang,
  leak,  ///< memory stays allocated after the run
};
constexpr EnumNames<5> names_of(Drill) { return {"drill", {"abort", "segfault", "raise", "hang", "leak"}}; }

/// A request to a worker: one JSON object on one line.
struct RunRequest {
  std::string id;                           ///< echoed in the answer
  std::string checkpoint;                   ///< file that every rank loads its part of
  std::int64_t epochs = 0;                  ///< to train after loading; 0: load, evaluate, answer
  std::optional<std::uint64_t> order_seed;  ///< replaces the base's data-order seed; one that a fault
                                            ///< altered in the file stays
  std::optional<Drill> drill = {};
  /// The only tensors in which the file differs from the base: all other tensors are taken from memory.
  /// Absent: the whole file is read.
  std::optional<std::vector<std::string>> altered = {};
  std::vector<int> replicas = {};  ///< those that load the file, while all other replicas load the base;
                                   ///< empty: all
  bool compare_loaded = false;     ///< RunResult::unreached_tensors is wanted
  bool golden = false;     ///< a no-flip run that later ones of the same order_seed may be compared with
  bool early_end = false;  ///< may end where its state equals the golden run's: the rest would repeat it
  /// With golden: states to keep; else: steps after which to compare with them.
  std::optional<PropagationSpec> propagation = {};
  Faults faults = {};                         ///< what the run meets on the way; altered bits are in the file
  std::optional<RecoverySpec> recovery = {};  ///< for this run instead of the worker's own
  std::optional<Relaunch> relaunched = {};    ///< the run continues from there, in another job
};
constexpr auto keys_of(std::type_identity<RunRequest>) {
  using enum Presence;
  return std::tuple(Key{"id", &RunRequest::id}, Key{"checkpoint", &RunRequest::checkpoint},
                    Key{"epochs", &RunRequest::epochs}, Key{"order_seed", &RunRequest::order_seed},
                    Key{"drill", &RunRequest::drill}, Key{"altered", &RunRequest::altered},
                    Key{"replicas", &RunRequest::replicas, unless_default},
                    Key{"compare_loaded", &RunRequest::compare_loaded, unless_default},
                    Key{"golden", &RunRequest::golden, unless_default},
                    Key{"early_end", &RunRequest::early_end, unless_default},
                    Key{"propagation", &RunRequest::propagation},
                    Key{"faults", &RunRequest::faults, unless_default},
                    Key{"recovery", &RunRequest::recovery}, Key{"relaunched", &RunRequest::relaunched});
}

/// How a run ended that has a result.
enum class RunStatus {
  done,
  rejected,     ///< the file was refused
  nonfinite,    ///< stopped at the first non-finite loss or metric
  unrecovered,  ///< a rank or a link failed, and the run could not continue without it
};
constexpr EnumNames<4> names_of(RunStatus) {
  return {"status of a run", {"done", "rejected", "nonfinite", "unrecovered"}};
}

/// A worker's answer: one JSON object on one line.
struct RunResult {
  std::string id;
  RunStatus status = RunStatus::done;
  std::string detail;  ///< why rejected; where non-finite; why unrecovered
  std::vector<std::vector<Evaluation>>
      replicas;            ///< [replica][evaluation]; one replica for serial and pipeline
  std::int64_t steps = 0;  ///< steps taken
  std::optional<std::int64_t> test_targets = {};  ///< how many answers the test accuracy is a share of
  std::optional<std::int64_t>
      nonfinite_step;                         ///< steps taken when the first non-finite loss or metric showed
  std::optional<std::int64_t> returned_step;  ///< steps after which the state was seen to equal the golden
                                              ///< run's; what follows is taken from that run
  /// If the run was asked to end early: the steps that were left to do, or the epochs if their number was
  /// given, of which the one in progress counts. Not in rows.
  std::optional<std::int64_t> left_undone = {};
  bool nonfinite_state = false;  ///< some parameter, buffer or optimizer value is NaN or Inf at the end
  std::string final_digest;      ///< digest of the whole final state (docs/checkpoint-format.md), replica 0
  std::vector<std::string> replica_digests;  ///< one per replica
  std::vector<std::string> changed_tensors;  ///< loaded tensors that differ from the base file's, sorted
  /// The changed_tensors that did not change what a script loaded; absent: not compared. Not in rows.
  std::optional<std::vector<std::string>> unreached_tensors = {};
  std::vector<Alarm> alarms;                    ///< by step, then rank; at most 100 of each rank
  std::int64_t alarm_count = 0;                 ///< of all ranks, those left out included
  std::vector<GuardAction> guard_actions = {};  ///< in order; the first 100
  std::int64_t guard_action_count = 0;
  std::string last_loss;  ///< hex float of the last step's loss, "" when no step was taken
  /// Where asked for: the steps that this run reached, ascending, and what differed then.
  std::optional<std::vector<StepDrift>> propagation;
  std::vector<Recovery> recoveries = {};              ///< of ranks that failed, in order
  std::vector<AlteredMessage> altered_messages = {};  ///< by link faults
  std::vector<AlteredValue> altered_values = {};      ///< by faults while computing
  std::vector<LinkReport> failed_links = {};          ///< that the run met, in order
  /// Whether ranks failed and no other rank took over their work.
  [[nodiscard]] bool lost_ranks() const noexcept {
    return status == RunStatus::unrecovered && !recoveries.empty();
  }
  double seconds = 0;  ///< volatile: of steps and evaluations on rank 0; of an exec runner, the whole command
};

/// "guard loss_spike at step 7 on rank 0: 31.2, limit 4.6".
[[nodiscard]] std::string describe(const Alarm& alarm);
/// "step 7 was skipped", "after step 7 the run went back to the state after step 6".
[[nodiscard]] std::string describe(const GuardAction& action);
[[nodiscard]] Json to_json(const RunResult& result, Times times = Times::with);
[[nodiscard]] RunResult run_result_from_json(const Json& value);

}  // namespace bitrift::record
