// Outcomes: the three classes of the study and their reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bitrift::record {

enum class OutcomeClass { masked, sdc, crash };
[[nodiscard]] const char* outcome_class_name(OutcomeClass value) noexcept;  ///< "masked", "SDC", "crash"

/// Every reason belongs to exactly one class (docs/outcomes.md).
enum class Reason {
  bitwise,
  reconverged,
  within_noise,  // masked
  sharp_degrade,
  slow_degrade,
  low_test_accuracy,
  degraded,  // SDC
  rejected,
  exception,
  signal,
  hang,
  nonfinite,  // crash
};
[[nodiscard]] const char* reason_name(Reason reason) noexcept;  ///< "low_test_accuracy"
[[nodiscard]] OutcomeClass class_of(Reason reason) noexcept;

struct Outcome {
  Reason reason = Reason::within_noise;
  bool bitwise_equal = false;                    ///< final state equals the golden run's, whatever the reason
  std::optional<std::int64_t> steps_to_recover;  ///< reconverged: steps until back inside for good
  [[nodiscard]] OutcomeClass outcome_class() const noexcept { return class_of(reason); }
};

}  // namespace bitrift::record
