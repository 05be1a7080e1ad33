// A rate over several strata from their counts alone, for one look.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/rates/interval.h"

namespace bitrift::analyze {

/// The observations of one outcome in one stratum.
struct StratumCount {
  std::uint64_t bits = 0;    ///< size of the stratum: its weight
  std::uint64_t hits = 0;    ///< trials with the outcome
  std::uint64_t trials = 0;  ///< at least 1
};

struct StratifiedRate {
  double estimate = 0;       ///< sum_h w_h k_h / n_h, w_h the stratum's share of all bits
  double variance = 0;       ///< of the estimate; no stratum counts as free of variance
  Interval wilson;           ///< of several strata with the effective n of the estimate; approximate
  Interval clopper_pearson;  ///< the same
};

/// In O(strata) (docs/statistics.md, "For one look"). estimate: the centre of the intervals of several
/// strata, instead of sum_h w_h k_h / n_h. Throws Error(bad_input) without a stratum, or for a stratum
/// without a trial.
[[nodiscard]] StratifiedRate stratified_rate(const std::vector<StratumCount>& strata, double confidence,
                                             std::optional<double> estimate = {});

}  // namespace bitrift::analyze
