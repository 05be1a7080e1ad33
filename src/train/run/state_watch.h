// One run at its chosen steps. Inside train/ only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "record/propagation_report.h"
#include "train/run/run_options.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// One run at its chosen steps: keeps states, or compares them with those kept.
class StateWatch {
 public:
  StateWatch(TrainerState& state, const std::optional<ChosenStates>& chosen);
  /// Call it when this many steps are over, the first time with 0. Local.
  void after(std::int64_t steps);
  /// The run went back to what it was after this many steps. Local.
  void went_back(std::int64_t steps);
  /// The run equals the golden one from here on: states that are chosen later do not differ. Local.
  void same_after(std::int64_t steps);
  /// On rank 0 of a run that compares: what all ranks found. Collective.
  [[nodiscard]] std::optional<std::vector<record::StepDrift>> gather();

 private:
  [[nodiscard]] bool wants(std::int64_t step) const;

  TrainerState& state_;
  const std::optional<ChosenStates>& chosen_;
  std::vector<record::StepDrift> found_;  // on this rank
};

/// The steps of a golden run of this many epochs, from the present state, that `wanted` asks for. They are
/// cut into groups, each of which fits into wanted.memory_mib on every rank. Throws Error(bad_input) when
/// that makes more than eight.
[[nodiscard]] std::vector<std::vector<std::int64_t>> state_groups(TrainerState& state,
                                                                  const record::PropagationSpec& wanted,
                                                                  std::int64_t epochs);

}  // namespace bitrift::train
