// The order in which a round's draws are bet on, which makes the interval of a weighted total valid
// (docs/statistics.md, "A weighted total").
#pragma once

#include <cstdint>
#include <vector>

#include "record/round.h"

namespace bitrift::analyze {

/// One round as a sequence of strata; the k-th occurrence of stratum h is its draw first[h] + k.
struct PickedRound {
  bool fixed = false;                ///< the draws were fixed; their order is a random shuffle
  std::vector<std::uint64_t> first;  ///< per stratum: draws of earlier rounds
  std::vector<std::uint64_t> share;  ///< per stratum: chance of a pick, or the fixed number of draws
  std::vector<std::uint32_t> picks;  ///< strata, one for each pick
  double weight = 0;                 ///< weight of the round in total_estimate(); see round_weights()
};

/// Picks `count` times a stratum, each time stratum h with probability share[h] / sum: pick t of round r is
/// the stratum into whose part random_below(derive_key(seed, "picks"), r, t, sum) falls. The sum must be at
/// least 1.
[[nodiscard]] std::vector<std::uint32_t> picks_by_share(std::uint64_t seed, std::uint64_t round,
                                                        const std::vector<std::uint64_t>& share,
                                                        std::uint64_t count);

/// The same without replacement: every stratum h exactly draws[h] times.
[[nodiscard]] std::vector<std::uint32_t> picks_shuffled(std::uint64_t seed, std::uint64_t round,
                                                        std::vector<std::uint64_t> draws);

/// The picks of all rounds that draw something. Strata are in the order of the rounds, which is the same in
/// all.
[[nodiscard]] std::vector<PickedRound> picked(const std::vector<record::Round>& rounds);

}  // namespace bitrift::analyze
