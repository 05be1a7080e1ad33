// A rank that fails: where in the training, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/named_enum.h"
#include "record/json/keys.h"

namespace bitrift::record {

/// What a rank was doing when it failed (docs/rank-failure.md, "Where a rank can fail"). Its points are
/// counted from 0.
enum class TrainingPhase {
  forward,   ///< points: micro-batches
  backward,  ///< points: micro-batches
  reduce,    ///< points: buckets of gradients; one if nothing is reduced
  update,    ///< points: trained tensors of the rank's stage
  save,      ///< points: tensors of the rank's stage
  evaluate,  ///< points: batches of an evaluation
  recovery,  ///< points: the parts of handling another rank's failure, see RecoveryPoint
  finish,    ///< points: between the last evaluation and the save, see FinishPoint
  leave,     ///< points: after the save, see LeavePoint
};
constexpr EnumNames<9> names_of(TrainingPhase) {
  return {"phase of training",
          {"forward", "backward", "reduce", "update", "save", "evaluate", "recovery", "finish", "leave"}};
}
/// Whether a phase is between steps: then the step of a fault is the number of steps before it.
[[nodiscard]] constexpr bool is_between_steps(TrainingPhase phase) noexcept {
  return phase == TrainingPhase::save || phase == TrainingPhase::evaluate || phase == TrainingPhase::finish ||
         phase == TrainingPhase::leave;
}

/// Points of TrainingPhase::recovery, in the order in which a recovery reaches them.
enum class RecoveryPoint {
  noticed,  ///< the failure is known, nothing is revoked yet
  shrunk,   ///< the survivors are a group, and do not know each other's positions
  state,    ///< state is being moved
  resumed,  ///< the state is there, but not all ranks have said so
};
constexpr EnumNames<4> names_of(RecoveryPoint) {
  return {"point of a recovery", {"noticed", "shrunk", "state", "resumed"}};
}

/// Points of TrainingPhase::finish, in the order in which a run reaches them.
enum class FinishPoint {
  evaluated,  ///< the last evaluation is known, but nothing else of the result
  digests,    ///< the digests of all replicas are known
  gathered,   ///< the whole result is known, but the save has not begun
};
constexpr EnumNames<3> names_of(FinishPoint) {
  return {"point of a run's end", {"evaluated", "digests", "gathered"}};
}

/// Points of TrainingPhase::leave, in the order in which a run reaches them. Without a recovery in place
/// there is only the first.
enum class LeavePoint {
  saved,     ///< the file exists, but not all ranks know that all know it
  agreed,    ///< all know; the result is not reported
  reported,  ///< the result is reported, and the exit code is known
};
constexpr EnumNames<3> names_of(LeavePoint) {
  return {"point of a run's end after the save", {"saved", "agreed", "reported"}};
}

/// How a rank fails.
enum class FailureMode {
  kill,  ///< SIGKILL
  stop,  ///< SIGSTOP: it hangs
  exit,  ///< _exit(0)
  slow,  ///< it continues, and takes longer
};
constexpr EnumNames<4> names_of(FailureMode) { return {"way to fail", {"kill", "stop", "exit", "slow"}}; }

/// With FailureMode::slow, what the rank calculates takes `factor` times as long, to the end of the
/// `steps`-th step; that in which it begins is the first.
struct Slowness {
  double factor = 2;
  std::int64_t steps = 1;
  bool operator==(const Slowness&) const = default;
};
constexpr auto keys_of(std::type_identity<Slowness>) {
  return std::tuple(Key{"factor", &Slowness::factor}, Key{"steps", &Slowness::steps});
}

struct ProcessFault {
  int rank = 0;           ///< number as the run began: replica x stages + stage
  std::int64_t step = 1;  ///< of this run, 1-based: the rank fails in it; between steps: after this many
  TrainingPhase phase = TrainingPhase::forward;
  std::int64_t point = 0;  ///< within the phase; a rank that has fewer points fails at its last one
  FailureMode how = FailureMode::kill;
  std::optional<Slowness> slowness = {};  ///< of mode slow only
  bool operator==(const ProcessFault&) const = default;
};

constexpr auto keys_of(std::type_identity<ProcessFault>) {
  return std::tuple(Key{"rank", &ProcessFault::rank}, Key{"step", &ProcessFault::step},
                    Key{"phase", &ProcessFault::phase}, Key{"point", &ProcessFault::point},
                    Key{"how", &ProcessFault::how}, Key{"slowness", &ProcessFault::slowness});
}
/// "RANK@STEP:PHASE", "RANK@STEP:PHASE.POINT" or either followed by "=HOW": "2@5:backward.1=stop", or
/// "2@5:backward=slow:FACTOR:STEPS". Throws Error(bad_input) that says what was expected.
[[nodiscard]] ProcessFault process_fault_from_text(std::string_view text);
/// The inverse: "2@5:backward.1=stop".
[[nodiscard]] std::string to_text(const ProcessFault& fault);

}  // namespace bitrift::record
