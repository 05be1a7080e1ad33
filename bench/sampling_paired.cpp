#include "sampling_paired.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "analyze/rates/paired.h"
#include "analyze/rates/total_interval.h"
#include "core/philox.h"

namespace bitrift {
namespace {

using analyze::Interval;
using analyze::StratumHits;

constexpr std::size_t kPairs = 1000;
constexpr std::size_t kLooks = 20;

struct Rates {
  double first, second;
  bool nested;  ///< every fault that hurts the first arm hurts the second too, or the reverse
};

/// Two strata with a ninth and the rest of the bits, equally many draws of each; values 0, 1 and 2 of 2.
std::vector<StratumHits> campaign(std::uint64_t seed, const Rates& rates) {
  std::vector<StratumHits> strata = {{100'000, {}, true, 2}, {800'000, {}, true, 2}};
  for (std::uint64_t h = 0; h < strata.size(); ++h) {
    for (std::uint64_t draw = 0; draw < kPairs / strata.size(); ++draw) {
      const double one = random_unit(seed, draw, 2 * h);
      const double other = rates.nested ? one : random_unit(seed, draw, 2 * h + 1);
      strata[h].hits.push_back(
          static_cast<std::uint8_t>(1 + (other < rates.second ? 1 : 0) - (one < rates.first ? 1 : 0)));
    }
  }
  return strata;
}

analyze::PickedRound round_of(const std::vector<StratumHits>& strata) {
  analyze::PickedRound round;
  round.fixed = true;
  round.first.assign(strata.size(), 0);
  for (const StratumHits& stratum : strata) round.share.push_back(stratum.hits.size());
  round.picks = analyze::picks_shuffled(1, 0, round.share);
  return round;
}

bool leaves_out_zero(const Interval& theta) { return theta.low > 0.5 || theta.high < 0.5; }

/// As many looks as are asked for, the last one with all pairs.
bool found(std::uint64_t seed, const Rates& rates, std::size_t looks) {
  const std::vector<StratumHits> all = campaign(seed, rates);
  const analyze::PickedRound round = round_of(all);
  for (std::size_t look = 1; look <= looks; ++look) {
    std::vector<StratumHits> seen = all;
    for (StratumHits& stratum : seen) stratum.hits.resize(stratum.hits.size() * look / looks);
    if (leaves_out_zero(analyze::total_interval({round}, seen, 0.95, analyze::expected_difference / 2)))
      return true;
  }
  return false;
}

double share(int repetitions, const Rates& rates, std::size_t looks) {
  int count = 0;
  for (int i = 0; i < repetitions; ++i)
    count += found(static_cast<std::uint64_t>(i) + 1, rates, looks) ? 1 : 0;
  return 100.0 * count / repetitions;
}

}  // namespace

int paired(int repetitions) {
  fmt::print("{} campaigns of {} pairs, intervals of 95 %\n", repetitions, kPairs);
  for (const Rates& rates : {Rates{0.1, 0.1, false}, Rates{0.02, 0.02, false}, Rates{0.4, 0.4, false}}) {
    fmt::print("rates {:.0f} and {:.0f} %, independent: {:.2f} % leave out 0 at any of {} looks\n",
               100 * rates.first, 100 * rates.second, share(repetitions, rates, kLooks), kLooks);
  }
  for (const Rates& rates : {Rates{0.05, 0.10, true}, Rates{0.10, 0.15, true}, Rates{0.05, 0.10, false},
                             Rates{0.10, 0.15, false}}) {
    fmt::print("rates {:.0f} and {:.0f} %, {}: {:.1f} % find the difference\n", 100 * rates.first,
               100 * rates.second, rates.nested ? "nested" : "independent", share(repetitions, rates, 1));
  }
  return 0;
}

}  // namespace bitrift
