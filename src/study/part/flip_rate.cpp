#include "study/part/flip_rate.h"

#include <fmt/format.h>

#include "analyze/rates/interval.h"

namespace bitrift::study {
namespace {

record::Json interval_json(const analyze::Interval& interval) { return {interval.low, interval.high}; }

}  // namespace

analyze::Rate flip_rate(std::uint64_t least, std::uint64_t most, std::uint64_t flips, std::uint64_t bits,
                        double confidence) {
  // Both ends of each interval grow with the number of hits.
  const auto n = static_cast<double>(flips);
  const auto low = static_cast<double>(least), high = static_cast<double>(most);
  return {low / n,
          {analyze::anytime_finite(least, flips, bits, confidence).low,
           analyze::anytime_finite(most, flips, bits, confidence).high},
          {analyze::wilson(low, n, confidence).low, analyze::wilson(high, n, confidence).high},
          {analyze::clopper_pearson(least, flips, confidence).low,
           analyze::clopper_pearson(most, flips, confidence).high}};
}

record::Json rate_json(const analyze::Rate& rate) {
  return {{"estimate", rate.estimate},
          {"anytime", interval_json(rate.anytime)},
          {"wilson", interval_json(rate.wilson)},
          {"clopper_pearson", interval_json(rate.clopper_pearson)}};
}

std::string rate_text(const analyze::Rate& rate) {
  return fmt::format("{:.1f} [{:.1f}, {:.1f}]", 100 * rate.estimate, 100 * rate.anytime.low,
                     100 * rate.anytime.high);
}

}  // namespace bitrift::study
