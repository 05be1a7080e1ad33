// The anytime interval of a weighted total of stratum rates.
#pragma once

#include <cstdint>
#include <vector>

#include "analyze/rates/interval.h"
#include "analyze/rates/picks.h"
#include "analyze/rates/stratum_part.h"

namespace bitrift::analyze {

/// The observations of one stratum, for one arm and one outcome, or for two arms and the difference of their
/// outcomes.
struct StratumHits {
  std::uint64_t bits = 0;          ///< size of its population
  std::vector<std::uint8_t> hits;  ///< of draws 0, 1, ... without a gap: 1 where the outcome was this one
  bool counted = true;             ///< whether it belongs to the total
  std::uint8_t most = 1;           ///< a draw has the value hits/most, at most 1; the same in all strata
  /// Where only a part of the stratum is counted: `bits` and `hits` are those of the part. nullptr: all of
  /// it.
  const Part* part = nullptr;
};

/// An interval for sum_h w_h theta_h over the counted strata, w_h = bits_h / sum of their bits and theta_h
/// the mean value of a stratum, that holds at every look at once with probability `confidence`. One counted
/// stratum of values 0 and 1: anytime_finite. Else: the intersection of two that hold together, bets on
/// single picks with 0.9 of the error probability, and anytime_finite of every stratum, and of every event
/// hits >= 1 ... most, weighted and summed (Bonferroni), with 0.1 of it. Both ends contain the mean of what
/// was seen.
///
/// aim: the half-width that the campaign asks of its totals; where all strata are counted, most of the wealth
/// is staked for it. 0: none in particular. It must be fixed before the first draw; it changes the width, not
/// the coverage.
///
/// Where only a part of a stratum counts, the bets are on the draws of the stratum that fall into the part,
/// in the order of the picks; the chance of a pick to fall into it is known before the pick.
///
/// Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", arXiv
/// 2010.09686, sections 4 and 5; the estimate that is bet on is Horvitz and Thompson's (1952) with the rates
/// so far as control variate. rounds: see picked(); rows of a round count up to the first pick that is
/// missing. Throws Error(bad_input) when nothing is counted, more was drawn than a stratum holds, or
/// confidence is not inside (0, 1).
[[nodiscard]] Interval total_interval(const std::vector<PickedRound>& rounds,
                                      const std::vector<StratumHits>& strata, double confidence,
                                      double aim = 0);

/// One of two independent samples. Both must outlive it.
struct TotalSample {
  const std::vector<PickedRound>* rounds = nullptr;
  const std::vector<StratumHits>* strata = nullptr;
};

/// An interval for the total of `second` less that of `first`, in -1..1, that holds at every look of both.
/// Each pick of one is matched with the pick of the other that has the same number. The bets are on both
/// estimates together, with 0.9 of the error probability; the Bonferroni intervals of both have 0.05 each.
/// aim: the difference for which the bets are sized; 0: none in particular. Values must be 0 and 1. Throws as
/// total_interval() does.
[[nodiscard]] Interval total_difference(const TotalSample& first, const TotalSample& second,
                                        double confidence, double aim = 0);

}  // namespace bitrift::analyze
