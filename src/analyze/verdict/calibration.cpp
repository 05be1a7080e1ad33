#include "analyze/verdict/calibration.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/binomial.hpp>

#include "core/error.h"
#include "core/number/median.h"

namespace bitrift::analyze {
namespace {

using record::Metric;
using record::MetricScale;

constexpr double kScaled = 1.4826;  // makes the median absolute deviation a standard deviation, if normal
constexpr double kLeastLossUnit = 1e-9;  // of the logarithm: a relative difference that is rounding

bool constant(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double one) { return one == values.front(); });
}

// The smallest positive difference between two of the values; 0 when all are equal.
double smallest_step(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double smallest = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double step = values[i] - values[i - 1];
    if (step > 0 && (smallest == 0 || step < smallest)) smallest = step;
  }
  return smallest;
}

struct MetricSpread {
  double median = 0;
  double unit = 1;
};

MetricSpread metric_spread(std::vector<double> values, double least_unit) {
  MetricSpread spread;
  spread.median = median(values);
  for (double& value : values) value = std::abs(value - spread.median);
  spread.unit = std::max(kScaled * median(values), least_unit);
  return spread;
}

// One metric of one evaluation over all clean runs; empty where none has it.
std::vector<double> column_of(const std::vector<Trajectory>& clean, std::size_t evaluation,
                              const Metric& metric) {
  std::vector<double> column;
  for (const Trajectory& run : clean) {
    const auto value = metric.value_in(run[evaluation]);
    if (!value) continue;
    if (!std::isfinite(*value)) {
      fail(ErrorCode::bad_input, "{} of evaluation {} is not finite in a clean run", metric.name(),
           evaluation + 1);
    }
    column.push_back(badness(metric, *value));
  }
  if (!column.empty() && column.size() != clean.size()) {
    fail(ErrorCode::bad_input, "{} of evaluation {} is there in {} of {} clean runs only", metric.name(),
         evaluation + 1, column.size(), clean.size());
  }
  return column;
}

}  // namespace

double badness(const Metric& metric, double value) noexcept {
  if (metric.scale() == MetricScale::ratio)
    return std::log(std::max(value, std::numeric_limits<double>::min()));
  return metric.better() == record::Better::lower ? value : -value;
}

double value_from(const Metric& metric, double badness) noexcept {
  if (metric.scale() == MetricScale::ratio) return std::exp(badness);
  return metric.better() == record::Better::lower ? badness : -badness;
}

/// Harm is measured from the reference value, in units.
struct Calibration::Column {
  std::size_t evaluation = 0;
  std::size_t metric = 0;
  double own = 0;  ///< badness of the ranked run
  double median = 0;
  double unit = 1;
  double reference = 0;
  [[nodiscard]] double harm() const { return (own - reference) / unit; }
};

Calibration::Calibration(const std::vector<Trajectory>& clean, std::vector<Metric> metrics, double level,
                         std::optional<std::int64_t> targets)
    : metrics_(std::move(metrics)), runs_(clean.size()), asked_(level), targets_(targets) {
  if (runs_ < 2) {
    fail(ErrorCode::bad_input, "{} clean runs are too few to show their spread: raise controls.envelope",
         runs_);
  }
  evaluations_ = clean.front().size();
  for (const Trajectory& run : clean) {
    if (run.size() == evaluations_ && evaluations_ > 0) continue;
    fail(ErrorCode::bad_input, "clean runs have {} and {} evaluations", evaluations_, run.size());
  }
  const auto n = static_cast<double>(runs_);
  rank_limit_ = std::max<std::size_t>(1, static_cast<std::size_t>(std::floor(level * (n + 1) + 1e-9)));
  for (std::size_t e = 0; e < evaluations_; ++e) {
    auto& columns = badness_.emplace_back();
    for (const Metric& metric : metrics_) columns.push_back(column_of(clean, e, metric));
  }
  bool any_varies = false;
  for (std::size_t j = 0; j < metrics_.size(); ++j) {
    const std::string name = metrics_[j].name();
    const std::vector<double>& last = badness_.back()[j];
    if (last.empty()) {
      fail(ErrorCode::bad_input,
           "the clean runs have no {}, which analysis.metrics names: leave it out with --metrics", name);
    }
    const MetricScale scale = metrics_[j].scale();
    const bool counted = scale == MetricScale::share && targets;
    least_unit_.push_back(scale == MetricScale::ratio ? kLeastLossUnit
                          : counted                   ? 1 / static_cast<double>(*targets)
                                                      : smallest_step(last));
    const bool varies = !constant(last);
    any_varies = any_varies || varies;
    // A constant accuracy still has a unit: one test target, where their number is known.
    if (varies || (counted && metrics_.size() > 1)) continue;
    fail(ErrorCode::bad_input,
         "{} is the same in all {} clean runs, so the meaning of a difference is unknown: use a larger test "
         "set, "
         "a base that was trained less or a higher learning rate, or leave it out of analysis.metrics "
         "(--metrics)",
         name, runs_);
  }
  if (!any_varies) {
    fail(ErrorCode::bad_input,
         "no judged metric differs between the {} clean runs, so the meaning of a difference is unknown: use "
         "a "
         "larger test set, a base that was trained less or a higher learning rate",
         runs_);
  }
}

double Calibration::level() const noexcept {
  return static_cast<double>(rank_limit_) / static_cast<double>(runs_ + 1);
}

double Calibration::level_with(double confidence) const {
  const auto r = static_cast<double>(rank_limit_);
  return boost::math::quantile(boost::math::beta_distribution<double>(r, static_cast<double>(runs_) + 1 - r),
                               confidence);
}

std::size_t Calibration::lenient_rank_limit(double confidence) const {
  const boost::math::binomial exceed(static_cast<double>(runs_), std::min(asked_, level()));
  std::size_t k = rank_limit_;
  // P(at least k of n clean runs are beyond the true quantile).
  while (k < runs_ && boost::math::cdf(boost::math::complement(exceed, static_cast<double>(k) - 1)) >
                          (1 - confidence) / 2) {
    ++k;
  }
  return k;
}

std::optional<std::size_t> Calibration::strict_rank_limit(double confidence) const {
  const boost::math::binomial exceed(static_cast<double>(runs_), std::min(asked_, level()));
  std::optional<std::size_t> k;
  // P(fewer than k of n clean runs are beyond the true quantile).
  for (std::size_t next = 1;
       next <= runs_ && boost::math::cdf(exceed, static_cast<double>(next) - 1) <= (1 - confidence) / 2;
       ++next)
    k = next;
  return k ? std::optional(std::min(*k, rank_limit_)) : std::nullopt;
}

std::vector<double> Calibration::units() const {
  std::vector<double> units;
  for (std::size_t j = 0; j < metrics_.size(); ++j)
    units.push_back(metric_spread(clean()[j], least_unit_[j]).unit);
  return units;
}

std::vector<double> Calibration::limit_rises() const {
  std::vector<double> rises;
  std::vector<double> scores(runs_, -std::numeric_limits<double>::infinity());
  for (std::size_t j = 0; j < metrics_.size(); ++j) {
    const MetricSpread spread = metric_spread(clean()[j], least_unit_[j]);
    rises.push_back(spread.unit);
    for (std::size_t i = 0; i < runs_; ++i)
      scores[i] = std::max(scores[i], (clean()[j][i] - spread.median) / spread.unit);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  for (double& rise : rises) rise *= std::max(0.0, scores[rank_limit_ - 1]);
  return rises;
}

std::size_t Calibration::count_at_least(const std::vector<double>& scores, double score) const {
  return static_cast<std::size_t>(
      std::count_if(scores.begin(), scores.end(), [&](double one) { return one >= score; }));
}

Ranking Calibration::rank_with(const std::vector<Column>& columns) const {
  Ranking ranking;
  ranking.outside.resize(evaluations_);
  std::vector<double> scores(runs_, -std::numeric_limits<double>::infinity());
  double own = -std::numeric_limits<double>::infinity();
  for (const Column& column : columns) {
    const std::vector<double>& clean = badness_[column.evaluation][column.metric];
    for (std::size_t i = 0; i < runs_; ++i) {
      scores[i] = std::max(scores[i], (clean[i] - column.median) / column.unit);
    }
    own = std::max(own, column.harm());
  }
  if (!columns.empty()) {
    ranking.p_value = static_cast<double>(1 + count_at_least(scores, own)) / static_cast<double>(runs_ + 1);
  }
  for (const Column& column : columns) {
    if (column.harm() > 0 && 1 + count_at_least(scores, column.harm()) <= rank_limit_)
      ranking.outside[column.evaluation].push_back(metrics_[column.metric]);
  }
  return ranking;
}

Ranking Calibration::rank(const Trajectory& run, const Trajectory& golden) const {
  std::vector<Column> horizon;
  std::vector<Column> before;
  std::vector<double> values;
  for (std::size_t e = 0; e < evaluations_; ++e) {
    for (std::size_t j = 0; j < metrics_.size(); ++j) {
      const std::vector<double>& clean = badness_[e][j];
      const auto own = metrics_[j].value_in(run.at(e));
      const auto golden_value = metrics_[j].value_in(golden.at(e));
      if (clean.empty() || !own || !golden_value) continue;
      Column column{e, j, badness(metrics_[j], *own)};
      values = clean;
      values.push_back(column.own);
      const MetricSpread spread = metric_spread(values, least_unit_[j]);
      column.median = spread.median;
      column.unit = spread.unit;
      column.reference = std::max(column.median, badness(metrics_[j], *golden_value));
      (e + 1 == evaluations_ ? horizon : before).push_back(column);
    }
  }
  Ranking ranking = rank_with(horizon);
  const Ranking way = rank_with(before);
  for (std::size_t e = 0; e + 1 < evaluations_; ++e) ranking.outside[e] = way.outside[e];
  return ranking;
}

}  // namespace bitrift::analyze
