// What the data say about the difference of two rates.
#pragma once

#include <string>

#include "analyze/rates/interval.h"
#include "core/named_enum.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// What the data say about a difference, given the margin that the reader calls small.
enum class ComparisonVerdict { differ, equivalent, open };
constexpr EnumNames<3> names_of(ComparisonVerdict) {
  return {"verdict of a comparison", {"differ", "equivalent", "open"}};
}

/// `differ`: the adjusted p is at most 1 - confidence. `equivalent`: else, and the interval lies inside
/// +-margin.
[[nodiscard]] ComparisonVerdict comparison_verdict(double adjusted_p, const Interval& interval,
                                                   double confidence, double margin);

/// The difference second - first of one outcome, for a sentence.
struct ComparisonAnswer {
  ComparisonVerdict verdict = ComparisonVerdict::open;
  record::OutcomeClass outcome = record::OutcomeClass::sdc;
  std::string first, second;  ///< whose rates they are
  double difference = 0;
  Interval interval;
  double margin = 0;
};
/// One plain sentence.
[[nodiscard]] std::string text(const ComparisonAnswer& answer);

/// "0.0312", "below 0.0001".
[[nodiscard]] std::string p_text(double p);

}  // namespace bitrift::analyze
