#include "analyze/apart.h"

#include <algorithm>

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

StratumRates rates_of(const Member& member, const Order& order, double confidence) {
  StratumRates one{order.names[member.position], member.trials(), {}, {}};
  for (const OutcomeClass outcome : record::outcome_classes) one.counts[outcome] = 0;
  for (const record::Reason reason : member.seen->outcomes) ++one.counts[record::class_of(reason)];
  one.rates = group_rates({member}, order, confidence);
  return one;
}

bool differ(const std::vector<StratumRates>& strata) {
  return std::ranges::any_of(record::outcome_classes, [&](OutcomeClass outcome) {
    double highest_low = 0;
    double lowest_high = 1;
    for (const StratumRates& one : strata) {
      const Interval& interval = one.rates.at(outcome).anytime;
      highest_low = std::max(highest_low, interval.low);
      lowest_high = std::min(lowest_high, interval.high);
    }
    return highest_low > lowest_high;
  });
}

}  // namespace

std::vector<StratumRates> strata_apart(const std::vector<Member>& line, const Order& order,
                                       double confidence) {
  std::vector<StratumRates> strata;
  const auto tried = std::ranges::count_if(line, [](const Member& member) { return member.trials() > 0; });
  if (tried < 2) return strata;
  for (const Member& member : line) {
    if (member.trials() > 0) strata.push_back(rates_of(member, order, confidence));
  }
  if (!differ(strata)) strata.clear();
  return strata;
}

}  // namespace bitrift::analyze
