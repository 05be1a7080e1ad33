// Steps that are computed twice (docs/training.md, "Guards"). Inside train/run only.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "train/run/trainer_state.h"

namespace bitrift::train {

/// The guard recompute: makes each step again from the state before it, and compares loss and state to the
/// bit. All ranks do everything at the same steps.
class Recompute {
 public:
  explicit Recompute(TrainerState& state) : state_(state) {}

  /// TrainerState::step(). With the guard on, the result and the state are those of the first time; a
  /// difference is an alarm, and only the first time raises alarms of other guards. Collective as a step is.
  [[nodiscard]] StepResult step(std::span<const std::int64_t> batch, bool leave);

 private:
  TrainerState& state_;
  std::string before_, first_, second_;  // in the form of pack_state()
};

}  // namespace bitrift::train
