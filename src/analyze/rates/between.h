// How far rates differ between data orders or bases, beyond the variance of their draws.
#pragma once

#include <vector>

namespace bitrift::analyze {

/// The rate of one data order or base, with the variance from its draws.
struct LevelRate {
  double estimate = 0;
  double variance = 0;  ///< positive, as StratifiedRate::variance is
};

struct Between {
  double mean = 0;       ///< of all possible levels: the inverse-variance mean with `deviation`
  double deviation = 0;  ///< standard deviation of the true rates between levels; 0: none is visible
  double q = 0;          ///< Cochran's statistic
  double p = 1;  ///< probability of a q at least this large when all levels have one rate: chi-squared with
                 ///< levels - 1 degrees
};

/// The random-effects model by the method of moments: with weights w_i = 1/variance_i, their mean y, and
/// q = sum w_i (y_i - y)^2, the variance between levels is
/// max(0, (q - (k - 1)) / (sum w_i - sum w_i^2 / sum w_i)). Levels must be independent of each other: other
/// draws, or another base; arms that run the same faults are not.
///
/// Source: DerSimonian and Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7, 1986;
/// q: Cochran, "The combination of estimates from different experiments", Biometrics 10, 1954. Throws
/// Error(bad_input) for fewer than two levels, or a variance that is not positive and finite.
[[nodiscard]] Between between(const std::vector<LevelRate>& levels);

}  // namespace bitrift::analyze
