// A rate over several strata from their counts alone, for one look.
#pragma once

#include <cstdint>
#include <vector>

#include "analyze/interval.h"

namespace bitrift::analyze {

/// What was seen of one outcome in one stratum.
struct StratumCount {
  std::uint64_t bits = 0;    ///< size of the stratum: its weight
  std::uint64_t hits = 0;    ///< trials with the outcome
  std::uint64_t trials = 0;  ///< at least 1
};

struct StratifiedRate {
  double estimate = 0;  ///< sum_h w_h k_h / n_h, w_h the stratum's share of all bits
  Interval wilson;      ///< of several strata with the effective n of the estimate; approximate
};

/// In O(strata) (docs/statistics.md, "For one look"). Throws Error(bad_input) when there is no stratum or one
/// without a trial.
[[nodiscard]] StratifiedRate stratified_rate(const std::vector<StratumCount>& strata, double confidence);

}  // namespace bitrift::analyze
