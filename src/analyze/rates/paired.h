// The difference of two rates over the same draws.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analyze/rates/interval.h"
#include "analyze/rates/picks.h"

namespace bitrift::analyze {

/// The observations of one stratum under two arms. Draw d is the same fault under both.
struct StratumPairs {
  std::uint64_t bits = 0;  ///< size of its population
  /// For draws 0, 1, ... without a gap in either arm: whether the outcome occurred. Equally long.
  std::vector<std::uint8_t> first, second;
  bool counted = true;  ///< whether it belongs to the total
};

/// How often the outcome occurred, over all pairs of the counted strata.
struct PairCounts {
  std::uint64_t both = 0, first_only = 0, second_only = 0, neither = 0;
  [[nodiscard]] std::uint64_t pairs() const noexcept { return both + first_only + second_only + neither; }
};

struct PairedDifference {
  PairCounts counts;
  Interval interval;  ///< of the rate of the second arm less that of the first, in -1..1; holds at every look
  double p = 1;       ///< smallest error probability at which the interval leaves out 0; holds at every look
  double mcnemar = 1;  ///< exact p-value of the unweighted counts, for one look
};

/// Counts over the counted strata. Throws Error(bad_input) where the two arms of a stratum have different
/// numbers of draws.
[[nodiscard]] PairCounts count_pairs(const std::vector<StratumPairs>& strata);

/// The smallest error probability at which `refuted(error)` holds, found by bisection between 1e-12 and 1; 0
/// where it holds at 1e-12. refuted must hold at every error probability above one at which it holds.
[[nodiscard]] double smallest_error(const std::function<bool(double)>& refuted);

/// The p-value of the exact McNemar test, two-sided: twice the smaller tail of Binomial(first_only +
/// second_only, 1/2), at most 1. Source: McNemar, Psychometrika 12, 1947; exact: Fagerland, Lydersen and
/// Laake, BMC Medical Research Methodology 13:91, 2013.
[[nodiscard]] double exact_mcnemar(std::uint64_t first_only, std::uint64_t second_only);
/// One-sided: the probability of at least this many pairs in which only the second has the outcome.
[[nodiscard]] double exact_mcnemar_greater(std::uint64_t first_only, std::uint64_t second_only);

/// The difference for which the bets are sized: 5 points. It changes the width, not the coverage.
inline constexpr double expected_difference = 0.05;

/// The interval of paired_difference() alone.
[[nodiscard]] Interval paired_interval(const std::vector<PickedRound>& rounds,
                                       const std::vector<StratumPairs>& strata, double confidence);

/// sum_h w_h (second_h - first_h) over the counted strata. A pair has the value (1 + second - first) / 2; the
/// interval is 2 theta - 1 of total_interval() of these values, which a pair with equal outcomes (1/2) hardly
/// widens. p is 0 below 1e-12. Throws as total_interval() does, and Error(bad_input) where the arms of a
/// stratum have different numbers of draws.
[[nodiscard]] PairedDifference paired_difference(const std::vector<PickedRound>& rounds,
                                                 const std::vector<StratumPairs>& strata, double confidence);

/// The adjusted p-values of Holm's step-down procedure, in the order given. Source: Holm, Scandinavian
/// Journal of Statistics 6, 1979.
[[nodiscard]] std::vector<double> holm(const std::vector<double>& p_values);

}  // namespace bitrift::analyze
