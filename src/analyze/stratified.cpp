#include "analyze/stratified.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::analyze {

StratifiedRate stratified_rate(const std::vector<StratumCount>& strata, double confidence) {
  double bits = 0;
  for (const StratumCount& stratum : strata) bits += static_cast<double>(stratum.bits);
  StratifiedRate rate;
  double smoothed = 0;
  double variance = 0;
  for (const StratumCount& stratum : strata) {
    const auto k = static_cast<double>(stratum.hits);
    const auto n = static_cast<double>(stratum.trials);
    if (stratum.trials == 0) fail(ErrorCode::bad_input, "a stratum without a trial has no rate");
    const double weight = static_cast<double>(stratum.bits) / bits;
    rate.estimate += weight * k / n;
    // Drawn towards 1/2, so that a stratum without events still has a variance.
    const double p = (k + 1) / (n + 2);
    smoothed += weight * p;
    variance += weight * weight * p * (1 - p) / n;
  }
  if (strata.empty()) fail(ErrorCode::bad_input, "no stratum was given, so there is no rate");
  rate.estimate = std::min(rate.estimate, 1.0);
  if (strata.size() == 1) {
    rate.wilson = wilson(static_cast<double>(strata.front().hits), static_cast<double>(strata.front().trials),
                         confidence);
  } else {
    const double effective = smoothed * (1 - smoothed) / variance;
    rate.wilson = wilson(rate.estimate * effective, effective, confidence);
  }
  return rate;
}

}  // namespace bitrift::analyze
