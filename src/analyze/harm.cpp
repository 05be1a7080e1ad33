#include "analyze/harm.h"

#include <algorithm>

#include "analyze/rates/total_interval.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

// Trials that are SDC, or would be if the limit were the lenient one.
std::vector<std::uint8_t> leniently(const StratumSeen& seen, std::size_t rank) {
  std::vector<std::uint8_t> hits = seen.hits(OutcomeClass::sdc);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    const bool masked = record::class_of(seen.outcomes[i]) == OutcomeClass::masked;
    if (masked && seen.ranks[i] > 0 && seen.ranks[i] <= rank) hits[i] = 1;
  }
  return hits;
}

// Trials that would be SDC if the limit were the strict one.
std::vector<std::uint8_t> strictly(const StratumSeen& seen, std::size_t rank) {
  std::vector<std::uint8_t> hits = seen.hits(OutcomeClass::sdc);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (seen.ranks[i] > rank) hits[i] = 0;
  }
  return hits;
}

// Each limit takes a quarter of the error probability, and so does each interval.
double for_limit(double confidence) { return 1 - (1 - confidence) / 2; }
double for_interval(double confidence) { return 1 - (1 - confidence) / 4; }

}  // namespace

Interval harmful_interval(const std::vector<Member>& line, const Order& order, const ArmControls& controls,
                          double confidence) {
  const Calibration& calibration = controls.calibration.value();
  const std::size_t lenient = calibration.lenient_rank_limit(for_limit(confidence));
  Interval interval{0, anytime_of(line, order, for_interval(confidence), [lenient](const StratumSeen& seen) {
                         return leniently(seen, lenient);
                       }).high};
  if (const auto strict = calibration.strict_rank_limit(for_limit(confidence))) {
    interval.low = anytime_of(line, order, for_interval(confidence), [strict](const StratumSeen& seen) {
                     return strictly(seen, *strict);
                   }).low;
  }
  return interval;
}

}  // namespace bitrift::analyze
