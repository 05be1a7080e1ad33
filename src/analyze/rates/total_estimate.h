// The estimate of a weighted total of stratum rates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyze/rates/picks.h"

namespace bitrift::analyze {

/// The observations of one stratum, for one arm.
struct StratumClasses {
  std::uint64_t bits = 0;             ///< size of its population
  std::vector<std::uint8_t> classes;  ///< of draws 0, 1, ... without a gap: the class of each
  bool counted = true;                ///< whether it belongs to the total
  bool whole = true;                  ///< false: only a part of the stratum is counted, see Part
};

/// Rates of all classes over the counted strata, which add up to 1. Where the rounds have weights
/// (round_weights()) and several strata are counted, all of them whole, the weighted mean of the picks' own
/// unbiased terms, which stays unbiased when the numbers of draws, and the end, were chosen by what was seen;
/// otherwise sum_h w_h k_h / n_h over the strata that have a draw. A class that was never seen has the rate
/// 0.
///
/// Source: Horvitz and Thompson 1952, with the rates so far as control variate, as in total_interval().
/// Throws Error(bad_input) when no counted stratum has a draw.
[[nodiscard]] std::vector<double> total_estimate(const std::vector<PickedRound>& rounds,
                                                 const std::vector<StratumClasses>& strata,
                                                 std::size_t classes);

}  // namespace bitrift::analyze
