#include "analyze/rates/comparison_verdict.h"

#include <fmt/format.h>

namespace bitrift::analyze {

ComparisonVerdict comparison_verdict(double adjusted_p, const Interval& interval, double confidence,
                                     double margin) {
  if (adjusted_p <= 1 - confidence) return ComparisonVerdict::differ;
  const bool inside = interval.low >= -margin && interval.high <= margin;
  return inside ? ComparisonVerdict::equivalent : ComparisonVerdict::open;
}

std::string text(const ComparisonAnswer& answer) {
  const std::string range = fmt::format("between {:+.1f} and {:+.1f} points", 100 * answer.interval.low,
                                        100 * answer.interval.high);
  const std::string what = name_of(answer.outcome);
  switch (answer.verdict) {
    case ComparisonVerdict::differ:
      return fmt::format("The {} rate is {} in {} than in {}: the difference lies {}.", what,
                         answer.difference > 0 ? "higher" : "lower", answer.second, answer.first, range);
    case ComparisonVerdict::equivalent:
      return fmt::format("The {} rates of {} and {} are equal within {:g} points: the difference lies {}.",
                         what, answer.first, answer.second, 100 * answer.margin, range);
    case ComparisonVerdict::open:
      break;
  }
  return fmt::format("No difference in the {} rate between {} and {} is shown: it lies {}.", what,
                     answer.first, answer.second, range);
}

std::string p_text(double p) { return p < 1e-4 ? "below 0.0001" : fmt::format("{:.4f}", p); }

}  // namespace bitrift::analyze
