#include "analyze/group_rates.h"

#include <algorithm>

#include "analyze/rates/stratified.h"
#include "analyze/rates/total_estimate.h"
#include "analyze/rates/total_interval.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

std::vector<double> estimates(const std::vector<Member>& line, const Order& order, std::size_t classes,
                              const Sorting& class_of) {
  std::vector<StratumClasses> strata(order.names.size());
  for (StratumClasses& one : strata) one.counted = false;
  for (const Member& member : line) {
    if (member.trials() == 0) continue;
    StratumClasses& stratum = strata[member.position];
    stratum.bits = member.bits(order);
    stratum.counted = true;
    stratum.whole = member.part == nullptr;
    stratum.classes.reserve(member.trials());
    for (const record::Reason reason : member.seen->outcomes) {
      stratum.classes.push_back(static_cast<std::uint8_t>(class_of(reason)));
    }
  }
  return total_estimate(order.rounds, strata, classes);
}

}  // namespace

IntervalKind interval_kind(std::string_view name) {
  if (const auto kind = find_named<IntervalKind>(name)) return *kind;
  fail(ErrorCode::bad_input, "interval '{}': give anytime, wilson or clopper_pearson", name);
}

const Interval& Rate::interval(IntervalKind kind) const noexcept {
  switch (kind) {
    case IntervalKind::wilson:
      return wilson;
    case IntervalKind::clopper_pearson:
      return clopper_pearson;
    case IntervalKind::anytime:
      break;
  }
  return anytime;
}

Rate rate_of(const std::map<OutcomeClass, Rate>& rates, RateOf what) {
  switch (what) {
    case RateOf::masked:
      return rates.at(OutcomeClass::masked);
    case RateOf::sdc:
      return rates.at(OutcomeClass::sdc);
    case RateOf::crash:
      return rates.at(OutcomeClass::crash);
    case RateOf::harmed:
      break;
  }
  const auto rest = [](const Interval& interval) { return Interval{1 - interval.high, 1 - interval.low}; };
  const Rate& masked = rates.at(OutcomeClass::masked);
  return {1 - masked.estimate, rest(masked.anytime), rest(masked.wilson), rest(masked.clopper_pearson)};
}

double share_seen(const std::vector<Member>& line, const Order& order) {
  double seen = 0;
  double all = 0;
  for (const Member& member : line) {
    const std::uint64_t bits = member.bits(order);
    if (bits == 0) return 0;
    all += static_cast<double>(bits);
    seen += member.trials() > 0 ? static_cast<double>(bits) : 0;
  }
  return seen / all;
}

Interval anytime_of(const std::vector<Member>& line, const Order& order, double confidence,
                    const std::function<std::vector<std::uint8_t>(const StratumSeen&)>& hits) {
  // Nothing can be said about a stratum of unknown size.
  if (share_seen(line, order) <= 0) return {};
  std::vector<StratumHits> strata(order.names.size());
  for (StratumHits& one : strata) one.counted = false;
  for (const Member& member : line) {
    StratumHits& stratum = strata[member.position];
    stratum.bits = member.bits(order);
    stratum.counted = true;
    stratum.part = member.part;
    if (member.trials() > 0) stratum.hits = hits(*member.seen);
  }
  return total_interval(order.rounds, strata, confidence, order.aim);
}

std::vector<Rate> rates_by(const std::vector<Member>& line, const Order& order, double confidence,
                           std::size_t classes, const Sorting& class_of) {
  const std::vector<double> estimated = estimates(line, order, classes, class_of);
  const double seen = share_seen(line, order);
  std::vector<Rate> rates;
  for (std::size_t one = 0; one < classes; ++one) {
    const auto hits = [&](const StratumSeen& cell) {
      std::vector<std::uint8_t> marks;
      marks.reserve(cell.outcomes.size());
      for (const record::Reason reason : cell.outcomes) marks.push_back(class_of(reason) == one ? 1 : 0);
      return marks;
    };
    std::vector<StratumCount> counts;
    for (const Member& member : line) {
      if (member.trials() == 0) continue;
      const std::vector<std::uint8_t> of = hits(*member.seen);
      const auto count = static_cast<std::uint64_t>(std::count(of.begin(), of.end(), 1));
      counts.push_back({member.bits(order), count, member.trials()});
    }
    const StratifiedRate once = stratified_rate(counts, confidence, estimated[one]);
    const Interval anytime = anytime_of(line, order, confidence, hits);
    rates.push_back({estimated[one], stretched_to(estimated[one], anytime),
                     stretched_to(estimated[one], with_unknown_rest(seen, once.wilson)),
                     stretched_to(estimated[one], with_unknown_rest(seen, once.clopper_pearson))});
  }
  return rates;
}

std::map<OutcomeClass, Rate> group_rates(const std::vector<Member>& line, const Order& order,
                                         double confidence) {
  const std::vector<Rate> found =
      rates_by(line, order, confidence, record::outcome_classes.size(),
               [](record::Reason reason) { return static_cast<std::size_t>(record::class_of(reason)); });
  std::map<OutcomeClass, Rate> rates;
  for (const OutcomeClass outcome : record::outcome_classes)
    rates[outcome] = found[static_cast<std::size_t>(outcome)];
  return rates;
}

}  // namespace bitrift::analyze
