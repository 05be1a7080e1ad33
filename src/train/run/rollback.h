// Going back after an alarm (docs/training.md, "Guards that act"). Inside train/run only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "record/run.h"
#include "train/recover/run_ledger.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// The last two states of the run that it can go back to. All ranks do everything at the same steps.
class Rollback {
 public:
  /// Throws mpi::AgreedError if guards go back, or compute steps twice, in a run whose ranks or links may
  /// fail. loses_links: of this run.
  Rollback(TrainerState& state, bool loses_links);

  /// Called before each step: keeps the state if that is due. Local.
  void keep(const RunProgress& run);
  /// Whether to act on the alarm of the step that was just made. If the alarm comes again when the step is
  /// repeated, the last state may have been damaged already, and the one before it is tried. After that, no
  /// more action follows: the cause of the alarm has not passed.
  [[nodiscard]] bool acts(const RunProgress& run) const;
  /// Goes back to a kept state. `run` becomes what it was then, and its result lists the action. Local.
  void go_back(RunProgress& run);

 private:
  struct Kept {
    RunProgress run;    // at.commits is -1: none
    std::string bytes;  // in the form of pack_state()
    Guards::Memory memory;
    [[nodiscard]] bool any() const noexcept { return run.at.commits >= 0; }
  };
  [[nodiscard]] int tries(const RunProgress& run) const;

  TrainerState& state_;
  record::OnAlarm action_;
  std::int64_t every_;
  Kept last_, before_;
  std::map<std::int64_t, int> tries_;  // by commits: how often it acted on this step
};

}  // namespace bitrift::train
