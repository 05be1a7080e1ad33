// Two samples whose draws have nothing to do with each other.
#pragma once

#include <cstdint>
#include <vector>

namespace bitrift::analyze {

/// How often an outcome occurred in one stratum, in two independent samples.
struct TwoCounts {
  std::uint64_t first_hits = 0, first_trials = 0;
  std::uint64_t second_hits = 0, second_trials = 0;
};

/// p-values for one look at numbers of trials that were fixed in advance.
struct FisherTest {
  double two_sided = 1;  ///< all that is as unlikely as what was seen, or more
  double greater = 1;    ///< the second rate is higher in some stratum: so many hits of it, or more
};

/// Fisher's exact test over strata: given how many hits and trials every stratum has in both samples
/// together, the hits of the second sample are a sum of hypergeometric numbers. The hypothesis tested is that
/// in no stratum the rates differ (greater: that in none the second is higher). A stratum without a trial in
/// one of the samples says nothing. Probabilities below 1e-30 become 0.
///
/// Source: Fisher, Statistical Methods for Research Workers, 1934; over strata: Birch, JRSS B 26, 1964 (what
/// mantelhaen.test(exact = TRUE) of R computes). Throws Error(bad_input) on more hits than trials.
[[nodiscard]] FisherTest stratified_fisher(const std::vector<TwoCounts>& strata);

}  // namespace bitrift::analyze
