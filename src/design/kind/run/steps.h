// The steps of a run in which faults strike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "record/json/json.h"

namespace bitrift::design {

/// Steps of a run, both included; the first step is 1.
struct StepRange {
  std::int64_t first = 1, last = 1;
  [[nodiscard]] std::uint64_t count() const noexcept { return static_cast<std::uint64_t>(last - first + 1); }
  bool operator==(const StepRange&) const = default;
};

/// Reads a number, which is the last step, or {"first", "last"}; nullopt if `pointer` has no value. Throws
/// Error(bad_input) with file, line and key.
[[nodiscard]] std::optional<StepRange> step_range_from(const record::Document& document,
                                                       const std::string& pointer);
[[nodiscard]] record::Json to_json(const StepRange& steps);

/// The steps from which faults are drawn: the requested ones, or all of a run. key: "strata.wire.steps", for
/// messages. Throws Error(bad_input) when one is beyond the end of the run.
[[nodiscard]] StepRange drawn_steps(const std::optional<StepRange>& asked, std::int64_t per_epoch,
                                    std::int64_t epochs, const char* key);

/// The step of a canary that must be reached, in the middle of a run, or of one that must not be reached.
[[nodiscard]] constexpr std::int64_t canary_step(std::int64_t steps_of_run, bool reached) noexcept {
  return reached ? (steps_of_run + 1) / 2 : steps_of_run + 1;
}

/// The steps of a run in which a fault can begin: all of each epoch but the short ones at its end.
struct FullSteps {
  std::int64_t per_epoch = 1, short_ones = 0;
  [[nodiscard]] std::int64_t full() const noexcept { return per_epoch - short_ones; }
  /// Those among the first `steps` steps.
  [[nodiscard]] std::int64_t among_first(std::int64_t steps) const noexcept {
    return steps / per_epoch * full() + std::min(steps % per_epoch, full());
  }
  /// Number `index` of them, from 0.
  [[nodiscard]] std::int64_t at(std::int64_t index) const noexcept {
    return index / full() * per_epoch + index % full() + 1;
  }
};

/// "steps 3 to 5", "steps".
[[nodiscard]] std::string steps_text(const std::optional<StepRange>& steps);

}  // namespace bitrift::design
