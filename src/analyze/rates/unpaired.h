// Two samples of unrelated draws.
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
  /// In one stratum, the probability of everything that is as unlikely as the observation, or less likely;
  /// otherwise twice that of the less likely direction.
  double two_sided = 1;
  double greater = 1;  ///< the second rate is higher in some stratum: at least this many hits in the second
                       ///< sample
};

/// The weight of a hit in a stratum with these hits and trials in both samples: 2 / sqrt(p (1 - p)), to the
/// next whole number, with p = (hits + 1) / (trials + 2). A hit says more where hits are rare than where they
/// are usual.
[[nodiscard]] std::uint64_t weight_of_hit(std::uint64_t hits, std::uint64_t trials);

/// Fisher's exact test over strata: given how many hits and trials every stratum has in both samples
/// together, the hits of the second sample are hypergeometric, and the test statistic is their sum, each
/// times weight_of_hit(). The hypothesis tested is that in no stratum the rates differ (greater: that in none
/// the second is higher). A stratum without a trial in one of the samples says nothing. Probabilities below
/// 1e-30 become 0.
///
/// Source: Fisher, Statistical Methods for Research Workers, 1934; over strata, without weights: Birch, JRSS
/// B 26, 1964. The weights depend only on what is given, so the test stays exact (docs/statistics.md,
/// "Between campaigns"). Throws Error(bad_input) on more hits than trials.
[[nodiscard]] FisherTest stratified_fisher(const std::vector<TwoCounts>& strata);

}  // namespace bitrift::analyze
