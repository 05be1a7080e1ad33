#include "analyze/harm.h"

#include <algorithm>

#include "analyze/rates/total_interval.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

// Trials that are SDC, or would be if the limit were the lenient one.
std::vector<std::uint8_t> beyond(const StratumSeen& seen, std::size_t lenient) {
  std::vector<std::uint8_t> hits = seen.hits(OutcomeClass::sdc);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    const bool masked = record::class_of(seen.outcomes[i]) == OutcomeClass::masked;
    if (masked && seen.ranks[i] > 0 && seen.ranks[i] <= lenient) hits[i] = 1;
  }
  return hits;
}

}  // namespace

Interval harmful_interval(const std::vector<Member>& line, const Order& order, const ArmControls& controls,
                          const FalseSdc& measured, double confidence) {
  const Calibration& calibration = controls.calibration.value();
  const double each = 1 - (1 - confidence) / 4;
  const std::size_t lenient = calibration.lenient_rank_limit(1 - (1 - confidence) / 2);
  const Interval called =
      anytime_of(line, order, each, [](const StratumSeen& seen) { return seen.hits(OutcomeClass::sdc); });
  const Interval leniently =
      anytime_of(line, order, each, [lenient](const StratumSeen& seen) { return beyond(seen, lenient); });
  const double clean =
      measured.all().runs > 0 ? upper_bound(measured.all(), each) : calibration.level_with(each);
  return {clean < 1 ? std::max(0.0, (called.low - clean) / (1 - clean)) : 0.0, leniently.high};
}

}  // namespace bitrift::analyze
