#include "analyze/rates/picks.h"

#include <numeric>

#include "core/philox.h"

namespace bitrift::analyze {
namespace {

// The stratum whose part of [0, sum) holds `at`.
std::uint32_t holder(const std::vector<std::uint64_t>& parts, std::uint64_t at) {
  std::uint32_t stratum = 0;
  while (at >= parts[stratum]) at -= parts[stratum++];
  return stratum;
}

}  // namespace

std::vector<std::uint32_t> picks_by_share(std::uint64_t seed, std::uint64_t round,
                                          const std::vector<std::uint64_t>& share, std::uint64_t count) {
  const std::uint64_t key = derive_key(seed, "picks");
  const std::uint64_t sum = std::accumulate(share.begin(), share.end(), std::uint64_t{0});
  std::vector<std::uint32_t> picks(count);
  for (std::uint64_t t = 0; t < count; ++t) picks[t] = holder(share, random_below(key, round, t, sum));
  return picks;
}

std::vector<std::uint32_t> picks_shuffled(std::uint64_t seed, std::uint64_t round,
                                          std::vector<std::uint64_t> draws) {
  const std::uint64_t key = derive_key(seed, "picks");
  std::uint64_t left = std::accumulate(draws.begin(), draws.end(), std::uint64_t{0});
  std::vector<std::uint32_t> picks;
  picks.reserve(left);
  for (; left > 0; --left) {
    picks.push_back(holder(draws, random_below(key, round, picks.size(), left)));
    --draws[picks.back()];
  }
  return picks;
}

std::vector<PickedRound> picked(const std::vector<record::Round>& rounds) {
  std::vector<PickedRound> result;
  for (const record::Round& round : rounds) {
    if (round.draws() == 0) continue;
    PickedRound one;
    one.fixed = round.picks == 0;
    for (const record::StratumDraws& cell : round.strata) {
      one.first.push_back(cell.first_draw);
      one.share.push_back(one.fixed ? cell.draws : cell.share);
    }
    one.picks = one.fixed ? picks_shuffled(round.seed, round.number, one.share)
                          : picks_by_share(round.seed, round.number, one.share, round.picks);
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace bitrift::analyze
