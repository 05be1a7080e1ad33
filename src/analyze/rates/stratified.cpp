#include "analyze/rates/stratified.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::analyze {

StratifiedRate stratified_rate(const std::vector<StratumCount>& strata, double confidence,
                               std::optional<double> estimate) {
  double bits = 0;
  for (const StratumCount& stratum : strata) bits += static_cast<double>(stratum.bits);
  StratifiedRate rate;
  double smoothed = 0;
  for (const StratumCount& stratum : strata) {
    const auto k = static_cast<double>(stratum.hits);
    const auto n = static_cast<double>(stratum.trials);
    if (stratum.trials == 0) fail(ErrorCode::bad_input, "a stratum without a trial has no rate");
    const double weight = static_cast<double>(stratum.bits) / bits;
    rate.estimate += weight * k / n;
    // Shrunk towards 1/2, so that a stratum without events still has a variance.
    const double p = (k + 1) / (n + 2);
    smoothed += weight * p;
    rate.variance += weight * weight * p * (1 - p) / n;
  }
  if (strata.empty()) fail(ErrorCode::bad_input, "no stratum was given, so there is no rate");
  rate.estimate = std::clamp(estimate.value_or(rate.estimate), 0.0, 1.0);
  const StratumCount& only = strata.front();
  if (strata.size() == 1) {
    rate.wilson = wilson(static_cast<double>(only.hits), static_cast<double>(only.trials), confidence);
    rate.clopper_pearson = clopper_pearson(only.hits, only.trials, confidence);
  } else {
    const double effective = smoothed * (1 - smoothed) / rate.variance;
    rate.wilson = wilson(rate.estimate * effective, effective, confidence);
    rate.clopper_pearson = clopper_pearson_of(rate.estimate * effective, effective, confidence);
  }
  return rate;
}

}  // namespace bitrift::analyze
