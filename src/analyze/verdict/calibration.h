// What clean runs look like, and how a run ranks among them: the measure of "worse than healthy training"
// (docs/outcomes.md, "The verdict").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "record/metric.h"
#include "record/run.h"

namespace bitrift::analyze {

/// Evaluations of one run, as judged.
using Trajectory = std::vector<record::Evaluation>;

/// How harmful a run is among the clean ones.
struct Ranking {
  /// (1 + clean runs that score at least as high) / (n + 1), at the horizon.
  double p_value = 1;
  /// By evaluation up to the horizon, the horizon last: the metrics that are outside, ascending.
  std::vector<std::vector<record::Metric>> outside;
};

/// The clean runs of one arm, up to the horizon.
///
/// The badness of a metric is -accuracy or ln(loss), and the value or -value of a custom one. A run that is
/// ranked joins the n clean runs; of each metric and evaluation the n + 1 values have a median and a unit,
/// the scaled median absolute deviation (1.4826 MAD), for accuracies at least one test target. The score of a
/// clean run is its largest (badness - median) / unit over the judged metrics; that of the ranked run is its
/// largest (badness - max(median, badness of its golden run)) / unit, so that it must be worse than both. The
/// p-value is the conformal one (Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005,
/// section 2.2), so that a clean run is outside with probability level() at most, whatever the distributions.
/// The horizon is ranked by itself, and all evaluations before it together.
class Calibration {
 public:
  /// clean: as long as the horizon, all of equal length. targets: how many answers an accuracy is a share of;
  /// absent, and for custom metrics: the smallest difference between two values counts as one. Throws
  /// Error(bad_input) when there are fewer than two runs, a judged metric is missing, not finite or (a loss)
  /// not above 0, or when no judged metric differs between clean runs; the message names metric and cure.
  Calibration(const std::vector<Trajectory>& clean, std::vector<record::Metric> metrics, double level,
              std::optional<std::int64_t> targets);

  /// run, golden: at least up to the horizon. Metrics that the run lacks are skipped.
  [[nodiscard]] Ranking rank(const Trajectory& run, const Trajectory& golden) const;

  [[nodiscard]] std::size_t runs() const noexcept { return runs_; }
  [[nodiscard]] std::size_t evaluations() const noexcept { return evaluations_; }
  [[nodiscard]] const std::vector<record::Metric>& metrics() const noexcept { return metrics_; }
  [[nodiscard]] std::optional<std::int64_t> targets() const noexcept { return targets_; }
  /// The largest share of clean runs that is called outside at the horizon: r/(n + 1), the largest such share
  /// within the requested level, but at least 1/(n + 1).
  [[nodiscard]] double level() const noexcept;
  /// r: if more clean runs than this score at least as high, the run is not outside.
  [[nodiscard]] std::size_t rank_limit() const noexcept { return rank_limit_; }
  /// The level that these very runs have with this confidence: the share of further runs that exceed the r-th
  /// largest of n scores is Beta(r, n + 1 - r) distributed (Vovk, "Conditional validity of inductive
  /// conformal predictors", ACML 2012; exact for one metric).
  [[nodiscard]] double level_with(double confidence) const;
  /// Rank up to which a run may lie beyond the true quantile of the level, as far as n runs can tell with
  /// this confidence: at least rank_limit().
  [[nodiscard]] std::size_t lenient_rank_limit(double confidence) const;
  /// The lowest rank at which a run lies beyond the true quantile of the level for sure, as far as n runs can
  /// tell with this confidence; nullopt where so few runs cannot tell at all.
  [[nodiscard]] std::optional<std::size_t> strict_rank_limit(double confidence) const;
  /// By metric, at the horizon: the unit of the clean runs alone.
  [[nodiscard]] std::vector<double> units() const;
  /// By metric, at the horizon: units() times the r-th largest score of the clean runs, taken among
  /// themselves.
  [[nodiscard]] std::vector<double> limit_rises() const;
  /// By metric, at the horizon: the badness of each clean run.
  [[nodiscard]] const std::vector<std::vector<double>>& clean() const noexcept { return badness_.back(); }

 private:
  struct Column;  // one metric at one evaluation
  [[nodiscard]] Ranking rank_with(const std::vector<Column>& columns) const;
  [[nodiscard]] std::size_t count_at_least(const std::vector<double>& scores, double score) const;

  std::vector<record::Metric> metrics_;
  std::size_t runs_ = 0;
  std::size_t evaluations_ = 0;
  std::size_t rank_limit_ = 1;
  double asked_ = 0;
  std::optional<std::int64_t> targets_;
  /// badness_[evaluation][metric][run]; empty where no clean run has the metric.
  std::vector<std::vector<std::vector<double>>> badness_;
  std::vector<double> least_unit_;  // by metric
};

/// -accuracy, or ln(loss), or a custom metric with the sign that makes more of it worse; losses below the
/// smallest positive number count as that number.
[[nodiscard]] double badness(const record::Metric& metric, double value) noexcept;
/// The inverse.
[[nodiscard]] double value_from(const record::Metric& metric, double badness) noexcept;

}  // namespace bitrift::analyze
