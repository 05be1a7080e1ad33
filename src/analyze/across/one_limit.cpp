#include "analyze/across/one_limit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <boost/math/distributions/binomial.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analyze/rates/unpaired.h"
#include "core/error.h"
#include "core/number/median.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

// With few jitter runs, even the widest range misses its centre more often than this many times the requested
// probability; the clean runs then say how far away the centre may be.
constexpr double kWidestFactor = 10;

/// The range in which harmless runs of one data order lie, as rises of one metric above the golden run.
struct CentreRange {
  double low = 0, centre = 0, high = 0;
};
/// By data order, then by metric.
using Centres = std::vector<std::vector<CentreRange>>;

/// The error probability that all ranges together cost.
struct RangeCost {
  double each = 0;  ///< requested for one end of one range
  double miss = 0;
};

double below_half(std::size_t n, std::size_t at_most) {
  return boost::math::cdf(boost::math::binomial(static_cast<double>(n), 0.5), static_cast<double>(at_most));
}

// The s-th smallest and the s-th largest value: the median of their distribution lies below the first (or
// above the second) with probability P(Binomial(n, 1/2) < s). s is the largest for which that is at most
// `each`.
CentreRange range_of_median(std::vector<double> values, RangeCost& cost) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  std::size_t s = 1;
  while (2 * (s + 1) <= n && below_half(n, s) <= cost.each) ++s;
  cost.miss += below_half(n, s - 1);
  CentreRange range{values[s - 1], 0, values[n - s]};
  range.centre = median(values);
  return range;
}

std::vector<double> column(const std::vector<MetricValues>& list, std::size_t metric, double less) {
  std::vector<double> values;
  for (const MetricValues& one : list) {
    if (std::isfinite(one[metric] - less)) values.push_back(one[metric] - less);
  }
  return values;
}

// A golden run is somewhere among the clean runs: the centre of its order lies between it and their median.
CentreRange range_by_clean_runs(const std::vector<double>& clean, RangeCost& cost) {
  if (clean.empty()) return {};
  const CentreRange all = range_of_median(clean, cost);
  return {std::min(0.0, all.low), 0, std::max(0.0, all.high)};
}

// The rises of one metric of all trials in a data order that did not crash; bitwise trials have none.
std::vector<double> trial_rises(const Side& side, std::size_t order, std::size_t orders, std::size_t metric) {
  std::vector<double> rises;
  for (const std::string& stratum : side.sample->order.names) {
    const SampledCell* const cell = side.sample->cell(side.arm, stratum);
    if (cell == nullptr) continue;
    for (std::size_t draw = order; draw < cell->outcomes.size(); draw += orders) {
      if (cell->outcomes[draw] == OutcomeClass::crash) continue;
      const MetricValues& own = cell->rises[draw];
      if (own.empty()) {
        rises.push_back(0);
      } else if (!std::isnan(own[metric])) {
        rises.push_back(own[metric]);
      }
    }
  }
  return rises;
}

// There are many more trials than jitter runs, so their median is known better. Two campaigns of one training
// have the same median, as long as only few faults do harm. It moves when harm increases, so it counts only
// where harmless runs may have it too. Elsewhere trials do not follow their golden run, or most faults do
// harm, and the centre may be any of them.
CentreRange with_trials(CentreRange harmless, const std::vector<double>& trials,
                        const std::vector<double>& clean, RangeCost& cost) {
  if (trials.empty() || clean.empty()) return harmless;
  const CentreRange range = range_of_median(trials, cost);
  if (harmless.low <= range.centre && range.centre <= harmless.high)
    return {std::max(range.low, harmless.low), range.centre, std::min(range.high, harmless.high)};
  // Harmless runs are not expected beyond the clean ones.
  const auto [least, most] = std::minmax_element(clean.begin(), clean.end());
  const double witness = std::clamp(range.centre, *least, *most);
  return {std::min(harmless.low, witness), harmless.centre, std::max(harmless.high, witness)};
}

Centres centres_of(const Side& side, RangeCost& cost) {
  const ArmReference& reference = side.sample->references.at(side.arm);
  const std::size_t orders = reference.golden.size();
  Centres centres(orders);
  for (std::size_t k = 0; k < orders; ++k) {
    for (std::size_t j = 0; j < reference.metrics.size(); ++j) {
      std::vector<double> harmless = column(reference.jitter[k], j, 0);
      harmless.push_back(0);
      const std::vector<double> clean = column(reference.clean, j, reference.golden[k][j]);
      const bool enough = below_half(harmless.size(), 0) <= kWidestFactor * cost.each;
      const CentreRange range = enough ? range_of_median(harmless, cost) : range_by_clean_runs(clean, cost);
      centres[k].push_back(with_trials(range, trial_rises(side, k, orders, j), clean, cost));
    }
  }
  return centres;
}

/// The rise above the centre that makes a trial SDC, by data order and metric.
using LimitsByOrder = std::vector<MetricValues>;

// columns: for each metric of the limits, its index among the arm's own metrics, or none.
ArmOutcomes outcomes_by(const Side& side, const Centres& centres, const LimitsByOrder& limits,
                        const std::vector<std::optional<std::size_t>>& columns) {
  ArmOutcomes outcomes;
  for (const std::string& stratum : side.sample->order.names) {
    const SampledCell* const cell = side.sample->cell(side.arm, stratum);
    if (cell == nullptr) continue;
    std::vector<OutcomeClass>& own = outcomes[stratum];
    own = cell->outcomes;
    for (std::size_t draw = 0; draw < own.size(); ++draw) {
      const MetricValues& rises = cell->rises[draw];
      if (rises.empty() || own[draw] == OutcomeClass::crash) continue;  // or equal to the golden run
      const std::size_t k = draw % centres.size();
      bool beyond = false;
      for (std::size_t j = 0; j < columns.size(); ++j) {
        if (columns[j]) beyond = beyond || rises[*columns[j]] - centres[k][*columns[j]].centre > limits[k][j];
      }
      own[draw] = beyond ? OutcomeClass::sdc : OutcomeClass::masked;
    }
  }
  return outcomes;
}

std::vector<std::optional<std::size_t>> columns_in(const std::vector<record::Metric>& metrics,
                                                   const std::vector<record::Metric>& own) {
  std::vector<std::optional<std::size_t>> columns;
  for (const record::Metric& metric : metrics) {
    const auto found = std::find(own.begin(), own.end(), metric);
    columns.push_back(found == own.end() ? std::nullopt : std::optional<std::size_t>(found - own.begin()));
  }
  return columns;
}

}  // namespace

OneLimit one_limit(const Side& first, const Side& second, double error) {
  const ArmReference& one = first.sample->references.at(first.arm);
  const ArmReference& other = second.sample->references.at(second.arm);
  const auto columns = columns_in(one.metrics, other.metrics);
  if (std::none_of(columns.begin(), columns.end(), [](const auto& column) { return column.has_value(); })) {
    fail(ErrorCode::bad_input,
         "arm '{}' of one campaign and '{}' of the other were judged by no metric in common, so their SDCs "
         "cannot be "
         "compared",
         first.arm, second.arm);
  }
  RangeCost cost;
  // Two ranges for each data order and metric: one of harmless runs, one of trials.
  cost.each = error / static_cast<double>(2 * (one.golden.size() + other.golden.size()) * one.metrics.size());
  const Centres first_centres = centres_of(first, cost);
  const Centres second_centres = centres_of(second, cost);

  OneLimit result;
  result.metrics = one.metrics;
  result.limit = one.limit;
  result.miss = std::min(1.0, cost.miss);
  result.allowance.assign(one.metrics.size(), 0);
  const LimitsByOrder plain(first_centres.size(), one.limit);
  const LimitsByOrder shown(second_centres.size(), one.limit);
  LimitsByOrder least = shown;
  LimitsByOrder most = shown;
  for (std::size_t j = 0; j < columns.size(); ++j) {
    double down = 0;
    double up = 0;
    for (const auto& order : first_centres) {
      down = std::max(down, order[j].centre - order[j].low);
      up = std::max(up, order[j].high - order[j].centre);
    }
    for (std::size_t k = 0; columns[j] && k < second_centres.size(); ++k) {
      const CentreRange& range = second_centres[k][*columns[j]];
      least[k][j] += down + range.high - range.centre;
      most[k][j] -= up + range.centre - range.low;
      result.allowance[j] = std::max(result.allowance[j], least[k][j] - one.limit[j]);
    }
  }
  result.first = outcomes_by(first, first_centres, plain, columns_in(one.metrics, one.metrics));
  result.second = outcomes_by(second, second_centres, shown, columns);
  result.second_least = outcomes_by(second, second_centres, least, columns);
  result.second_most = outcomes_by(second, second_centres, most, columns);
  return result;
}

bool Shift::worse() const noexcept {
  return metric.better() == record::Better::lower ? second > first : second < first;
}

std::string Shift::text(const std::string& was) const {
  const auto value = [this](double number) {
    return metric.scale() == record::MetricScale::share ? fmt::format("{:.2f} %", 100 * number)
                                                        : fmt::format("{:.4g}", number);
  };
  return fmt::format("the median {} of its clean runs is {}, {} {}", metric.name(), value(second), was,
                     value(first));
}

std::vector<Shift> shifts_of(const ArmReference& first, const ArmReference& second) {
  constexpr double kRare = 0.001;
  const auto columns = columns_in(first.metrics, second.metrics);
  std::vector<Shift> shifts;
  for (std::size_t j = 0; j < columns.size(); ++j) {
    if (!columns[j]) continue;
    std::vector<double> one = column(first.clean, j, 0);
    std::vector<double> other = column(second.clean, *columns[j], 0);
    if (one.empty() || other.empty()) continue;
    std::vector<double> all = one;
    all.insert(all.end(), other.begin(), other.end());
    const double middle = median(all);
    const auto above = [middle](const std::vector<double>& values) {
      return static_cast<std::uint64_t>(
          std::count_if(values.begin(), values.end(), [middle](double value) { return value > middle; }));
    };
    if (stratified_fisher({{above(one), one.size(), above(other), other.size()}}).two_sided > kRare) continue;
    const record::Metric& metric = first.metrics[j];
    shifts.push_back({metric, value_from(metric, median(one)), value_from(metric, median(other))});
  }
  return shifts;
}

std::string limit_text(const OneLimit& limit, const MetricValues& more) {
  std::vector<std::string> parts;
  for (std::size_t j = 0; j < limit.metrics.size(); ++j) {
    const double rise = limit.limit[j] + (more.empty() ? 0 : more[j]);
    const record::Metric& metric = limit.metrics[j];
    const double change = metric.scale() == record::MetricScale::ratio ? std::expm1(rise) : rise;
    parts.push_back(fmt::format("a {} of {} by more than {}", record::harm_word(metric), metric.name(),
                                record::change_text(metric, change)));
  }
  return fmt::format("{}", fmt::join(parts, " or "));
}

namespace {

Side with(const Side& side, const ArmOutcomes& outcomes) { return {side.sample, side.arm, &outcomes}; }

// The fewest SDCs are the most masked trials.
const ArmOutcomes& fewest(const OneLimit& limit, OutcomeClass outcome) {
  return outcome == OutcomeClass::masked ? limit.second_most : limit.second_least;
}
const ArmOutcomes& most(const OneLimit& limit, OutcomeClass outcome) {
  return outcome == OutcomeClass::masked ? limit.second_least : limit.second_most;
}

}  // namespace

LimitedDifference::LimitedDifference(const Side& first, const Side& second, const OneLimit& limit,
                                     OutcomeClass outcome, const std::vector<std::string>& strata,
                                     std::optional<ComparisonKind> kind)
    : shown_(with(first, limit.first), with(second, limit.second), outcome, strata, kind),
      least_(with(first, limit.first), with(second, fewest(limit, outcome)), outcome, strata, kind),
      most_(with(first, limit.first), with(second, most(limit, outcome)), outcome, strata, kind),
      miss_(outcome == OutcomeClass::crash ? 0 : limit.miss),
      settled_(outcome == OutcomeClass::crash ||
               (limit.second_least == limit.second && limit.second_most == limit.second)) {}

Interval LimitedDifference::interval(double confidence) const {
  const double each = confidence + 2 * miss_;
  if (each >= 1) return {-1, 1};
  if (settled_) return shown_.interval(each);
  return {least_.interval(each).low, most_.interval(each).high};
}

double LimitedDifference::p() const {
  if (settled_) return std::min(1.0, 2 * miss_ + shown_.p());
  return std::min(1.0, 2 * miss_ + smallest_error([this](double error) {
                         return least_.interval(1 - error).low > 0 || most_.interval(1 - error).high < 0;
                       }));
}

double LimitedDifference::p_above(double tolerance) const {
  if (least_.difference() <= tolerance) return 1;
  return std::min(1.0, miss_ + least_.p_above(tolerance));
}

std::optional<double> LimitedDifference::exact_p_above() const {
  const auto p = least_.exact_p_above();
  return p ? std::optional(std::min(1.0, *p + miss_)) : std::nullopt;
}

std::optional<double> LimitedDifference::exact_p() const {
  const auto lower = least_.exact_p();
  const auto upper = most_.exact_p();
  if (!lower || !upper) return std::nullopt;
  const bool apart = least_.difference() > 0 || most_.difference() < 0;
  return apart ? std::min(1.0, std::max(*lower, *upper) + 2 * miss_) : 1;
}

}  // namespace bitrift::analyze
