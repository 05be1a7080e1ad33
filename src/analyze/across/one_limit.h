// Judges the trials of two arms by one limit, so that a difference between them does not come from their
// clean runs (docs/statistics.md, "One limit").
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/across/arm_reference.h"
#include "analyze/across/difference.h"
#include "analyze/across/sample.h"

namespace bitrift::analyze {

/// Each campaign judges its trials by its own envelope and golden runs. These are few, and all trials share
/// them: another set of clean runs moves every fault near the limit to the same side. Here a trial of either
/// arm is SDC if its rise above the *centre* of its data order exceeds the limit of the first arm. The centre
/// is where harmless runs of the data order end.
///
/// A centre is only known within a range. `second_least` counts the trials of the second arm that are SDC
/// wherever the centres lie in their ranges, `second_most` those that may be.
struct OneLimit {
  std::vector<record::Metric> metrics;
  MetricValues limit;      ///< the limit: rise of the badness above the centre
  MetricValues allowance;  ///< the most that second_least adds to it, in the worst data order
  /// The largest probability, in one direction, that a centre lies outside its range.
  double miss = 0;
  ArmOutcomes first, second;
  ArmOutcomes second_least, second_most;
};

/// The share of a statement's error probability that the ranges of the centres may use up.
inline constexpr double range_share = 0.02;

/// error: the part of an error probability that `miss` may use up; with few jitter runs `miss` is at most ten
/// times as much.
[[nodiscard]] OneLimit one_limit(const Side& first, const Side& second, double error);

/// A metric whose clean runs differ between two arms, so that all runs are better or worse, whatever faults
/// do.
struct Shift {
  record::Metric metric = record::Metric::test_accuracy;
  double first = 0, second = 0;  ///< medians of the metric (not of the badness) over the clean runs
  [[nodiscard]] bool worse() const noexcept;
  /// "the median test_accuracy of its clean runs is 92.51 %, in the baseline 94.51 %". was: the words before
  /// the value of `first`.
  [[nodiscard]] std::string text(const std::string& was) const;
};

/// The metrics that differ in Mood's median test with p at most 0.001.
[[nodiscard]] std::vector<Shift> shifts_of(const ArmReference& first, const ArmReference& second);

/// A limit in words: "a fall of test_accuracy by more than 0.83 points or a rise of test_capped_loss by more
/// than 7.6 %". more: added to each rise, none if empty.
[[nodiscard]] std::string limit_text(const OneLimit& limit, const MetricValues& more = {});

/// The difference of two rates by one limit.
class LimitedDifference {
 public:
  /// limit: of the same sides. strata, kind and exceptions: as in RateDifference.
  LimitedDifference(const Side& first, const Side& second, const OneLimit& limit,
                    record::OutcomeClass outcome, const std::vector<std::string>& strata = {},
                    std::optional<ComparisonKind> kind = {});

  [[nodiscard]] const RateDifference& shown() const noexcept { return shown_; }
  /// The difference with the fewest trials of the second arm that may have the outcome.
  [[nodiscard]] const RateDifference& least() const noexcept { return least_; }
  /// The error probability that the ranges of the centres add to a one-sided statement; 0 for crashes.
  [[nodiscard]] double miss() const noexcept { return miss_; }

  /// Holds at every look, and whatever clean runs both arms happened to have.
  [[nodiscard]] Interval interval(double confidence) const;
  /// The smallest error probability at which interval() leaves out 0.
  [[nodiscard]] double p() const;
  /// At which it lies above `tolerance`.
  [[nodiscard]] double p_above(double tolerance) const;
  /// For one look, one-sided: that the second rate is higher in some stratum.
  [[nodiscard]] std::optional<double> exact_p_above() const;
  /// For one look, two-sided.
  [[nodiscard]] std::optional<double> exact_p() const;

 private:
  RateDifference shown_, least_, most_;
  double miss_ = 0;
  bool settled_ = false;  ///< no trial is in doubt: all three differences are equal
};

}  // namespace bitrift::analyze
