// Outcomes: the three classes of the study and their reasons.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/named_enum.h"

namespace bitrift::record {

enum class OutcomeClass { masked, sdc, crash };
constexpr EnumNames<3> names_of(OutcomeClass) { return {"class of outcomes", {"masked", "SDC", "crash"}}; }
inline constexpr std::array outcome_classes = {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash};

/// Every reason belongs to exactly one class (docs/outcomes.md).
enum class Reason {
  bitwise,
  reconverged,
  within_noise,  // masked
  low_test_accuracy,
  high_test_loss,
  training_only,
  worse_metric,  // SDC
  rejected,
  exception,
  signal,
  hang,
  nonfinite,
  unrecovered,  // crash
};
constexpr EnumNames<13> names_of(Reason) {
  return {"reason of an outcome",
          {"bitwise", "reconverged", "within_noise", "low_test_accuracy", "high_test_loss", "training_only",
           "worse_metric", "rejected", "exception", "signal", "hang", "nonfinite", "unrecovered"}};
}
[[nodiscard]] OutcomeClass class_of(Reason reason) noexcept;

/// How an SDC developed over the evaluations of its run.
enum class Course {
  none,      ///< no SDC, or one evaluation: unknown
  sharp,     ///< outside at every evaluation
  slow,      ///< inside at the first evaluation
  relapsed,  ///< outside at the first evaluation, inside in between
};
constexpr EnumNames<4> names_of(Course) { return {"course of an SDC", {"", "sharp", "slow", "relapsed"}}; }

struct Outcome {
  Reason reason = Reason::within_noise;
  Course course = Course::none;
  /// Share of the n + 1 runs (n clean ones and this one) that are at least as harmful at the horizon; absent
  /// if metrics did not decide.
  std::optional<double> p_value = {};
  bool bitwise_equal = false;                    ///< the final state equals the golden run's, whatever the
                                                 ///< reason
  std::optional<std::int64_t> steps_to_recover;  ///< reconverged: steps until it stays inside
  bool recovered = false;                        ///< ranks failed, and the run continued to its end
  [[nodiscard]] OutcomeClass outcome_class() const noexcept { return class_of(reason); }
};

}  // namespace bitrift::record
