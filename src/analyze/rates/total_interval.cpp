#include "analyze/rates/total_interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

constexpr double kBetShare = 0.9;    // of the error probability; the Bonferroni intervals have the rest
constexpr double kLargestBet = 0.9;  // of the wealth: after a lost bet a tenth is left
// A fixed round ends for the bets once exhausted strata hold more than this share of the weight.
constexpr double kTolerated = 0.002;
// Deviations for which the bets are sized, a geometric grid over which the initial wealth is shared out.
constexpr std::size_t kStakes = 10;
using PerStake = std::array<double, kStakes>;
constexpr PerStake kDeviations = {0x1p-11, 0x1p-10, 0x1p-9, 0x1p-8, 0x1p-7,
                                  0x1p-6,  0x1p-5,  0x1p-4, 0x1p-3, 0x1p-2};

constexpr double kAimed = 0.75;  // of the initial wealth goes to the deviations nearest to the aim

// Shares of the initial wealth: equal ones, except that those near `aim` (0: none) are larger. They add up to
// 1.
PerStake first_shares(double aim) {
  PerStake shares;
  shares.fill(1.0 / kStakes);
  if (aim <= 0) return shares;
  const double at = std::clamp(aim, kDeviations.front(), kDeviations.back());
  double all = 0;
  PerStake nearness{};  // 1 at the aim, 0 for deviations that differ by a factor of two or more
  for (std::size_t k = 0; k < kStakes; ++k) {
    nearness[k] = std::max(0.0, 1 - std::abs(std::log2(kDeviations[k] / at)));
    all += nearness[k];
  }
  for (std::size_t k = 0; k < kStakes; ++k) {
    shares[k] = (1 - kAimed) * shares[k] + kAimed * nearness[k] / all;
  }
  return shares;
}

/// A bet on one pick: the estimate is `least`, its smallest possible value, plus `above`.
struct Bet {
  double above = 0;
  double least = 0;
  double scale = 0;  ///< times a deviation: the share of the wealth that is bet
  double reach = 0;  ///< divided by `scale`: the variance of the estimate
};

/// Processes the picks in order and forms an unbiased estimate of the total from each.
class Bettor {
 public:
  Bettor(const std::vector<StratumHits>& strata, bool of_misses) : strata_(strata), of_misses_(of_misses) {
    double sum = 0;
    for (const StratumHits& stratum : strata) sum += stratum.counted ? static_cast<double>(stratum.bits) : 0;
    for (const StratumHits& stratum : strata) {
      weight_.push_back(stratum.counted ? static_cast<double>(stratum.bits) / sum : 0);
    }
    drawn_.resize(strata.size());
    passed_.resize(strata.size());
    hits_.resize(strata.size());
    squares_.resize(strata.size());
    share_.resize(strata.size());
  }

  std::vector<Bet> bets(const std::vector<PickedRound>& rounds) {
    std::vector<Bet> bets;
    for (const PickedRound& round : rounds) {
      if (!begin(round)) break;
      bool whole = true;
      for (const std::uint32_t h : round.picks) {
        if (!strata_[h].counted || passed_[h] == stratum_bits(h)) continue;
        if (passed_[h] == stratum_draws(h)) {
          whole = false;
          break;
        }
        if (next_is_counted(h)) {
          if (const auto bet = bet_on(h); bet.scale > 0) bets.push_back(bet);
        }
        pass(h);
        if (round.fixed) share_[h] -= 1;
      }
      if (!whole) break;
    }
    return bets;
  }

 private:
  [[nodiscard]] std::uint64_t stratum_bits(std::size_t h) const {
    return strata_[h].part == nullptr ? strata_[h].bits : strata_[h].part->stratum_bits;
  }
  [[nodiscard]] std::uint64_t stratum_draws(std::size_t h) const {
    return strata_[h].part == nullptr ? strata_[h].hits.size() : strata_[h].part->draws;
  }
  // Whether the next draw of a stratum falls into the part that is counted.
  [[nodiscard]] bool next_is_counted(std::size_t h) const {
    if (strata_[h].part == nullptr) return true;
    const auto& inside = strata_[h].part->inside;
    return drawn_[h] < inside.size() && inside[drawn_[h]] == passed_[h];
  }
  // The chance that the next counted draw is one of this stratum, times a factor that is the same in all
  // strata.
  [[nodiscard]] double chance(std::size_t h) const {
    if (strata_[h].part == nullptr) return share_[h];
    return share_[h] * static_cast<double>(strata_[h].bits - drawn_[h]) /
           static_cast<double>(stratum_bits(h) - passed_[h]);
  }

  [[nodiscard]] double hit(std::size_t h, std::uint64_t draw) const {
    const double value = static_cast<double>(strata_[h].hits[draw]) / strata_[h].most;
    return of_misses_ ? 1 - value : value;
  }

  void pass(std::size_t h) {
    if (next_is_counted(h)) take(h);
    ++passed_[h];
  }

  void take(std::size_t h) {
    const double one = hit(h, drawn_[h]++);
    hits_[h] += one;
    squares_[h] += one * one;
    hits_of_all_ += one;
    squares_of_all_ += one * one;
    drawn_of_all_ += 1;
  }

  // Looks up what earlier rounds drew; false when some of it is missing.
  bool begin(const PickedRound& round) {
    for (std::size_t h = 0; h < strata_.size(); ++h) {
      share_[h] = static_cast<double>(round.share[h]);
      if (!strata_[h].counted) continue;
      if (stratum_draws(h) < round.first[h]) return false;
      while (passed_[h] < round.first[h]) pass(h);
    }
    return true;
  }

  // Everything but the outcome of the draw itself was known before the pick.
  [[nodiscard]] Bet bet_on(std::size_t pick) const {
    double all = 0;
    for (std::size_t h = 0; h < strata_.size(); ++h) all += open(h) ? chance(h) : 0;
    const double pooled = (hits_of_all_ + 0.5) / (drawn_of_all_ + 1);
    double centre = 0;
    double reach = 0;
    double variance = 0;
    double out = 0;
    double change = 0;
    for (std::size_t h = 0; h < strata_.size(); ++h) {
      if (!strata_[h].counted) continue;
      const auto size = static_cast<double>(strata_[h].bits);
      const auto drawn = static_cast<double>(drawn_[h]);
      const double rest = weight_[h] * (1 - drawn / size);
      centre += weight_[h] * hits_[h] / size;
      if (!open(h)) continue;
      if (share_[h] <= 0) {
        out += rest;  // counts as if the stratum held nothing more: that errs on the safe side
        continue;
      }
      const double rate = (hits_[h] + pooled) / (drawn + 1);
      const double reward = rest * all / chance(h);
      centre += rest * rate;
      reach = std::max(reach, reward * rate);
      variance += rest * reward * spread(h, rate);
      if (h == pick) change = reward * (hit(h, drawn_[h]) - rate);
    }
    if (out > kTolerated || variance <= 0) return {};
    return {std::max(0.0, change + reach), centre - reach, reach / variance, reach};
  }

  // The expected value of a draw of a stratum; it sizes the bet, and any size keeps the bound. Differences
  // are mostly 0, the value 1/2: before anything is observed, one in four is assumed to differ.
  [[nodiscard]] double spread(std::size_t h, double rate) const {
    if (strata_[h].most == 1) return rate * (1 - rate);
    constexpr double before = 0.25 + 0.25 * 0.25;
    const double pooled = (squares_of_all_ + before) / (drawn_of_all_ + 1);
    const double square = (squares_[h] + pooled) / (static_cast<double>(drawn_[h]) + 1);
    return std::max(square - rate * rate, 1e-6);
  }

  [[nodiscard]] bool open(std::size_t h) const { return strata_[h].counted && drawn_[h] < strata_[h].bits; }

  const std::vector<StratumHits>& strata_;
  bool of_misses_;
  std::vector<double> weight_;
  std::vector<std::uint64_t> drawn_;   // size of the counted part
  std::vector<std::uint64_t> passed_;  // size of the whole stratum
  std::vector<double> hits_;
  std::vector<double> squares_;
  std::vector<double> share_;
  double drawn_of_all_ = 0;
  double hits_of_all_ = 0;
  double squares_of_all_ = 0;
};

// The logarithm of the wealth after all bets against the total `theta`; the initial wealth is 1.
double log_wealth(const std::vector<Bet>& bets, const PerStake& shares, double theta) {
  constexpr std::size_t stride = 16;  // products of this many factors neither overflow nor vanish
  PerStake product{};
  PerStake logs{};
  product.fill(1);
  for (std::size_t i = 0; i < bets.size(); ++i) {
    const Bet& bet = bets[i];
    const double room = theta - bet.least;
    if (room <= 0 && bet.above > 0) return std::numeric_limits<double>::infinity();
    // A smaller wealth keeps the bound.
    const double ratio = bet.above > 0 ? std::min(bet.above / room, 1e15) : 0;
    for (std::size_t k = 0; k < kStakes; ++k) {
      const double share = std::min(kLargestBet, kDeviations[k] * bet.scale);
      product[k] *= 1 - share + share * ratio;
    }
    if (i % stride != stride - 1) continue;
    for (std::size_t k = 0; k < kStakes; ++k) {
      logs[k] += std::log(product[k]);
      product[k] = 1;
    }
  }
  for (std::size_t k = 0; k < kStakes; ++k) logs[k] += std::log(product[k]);
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (std::size_t k = 0; k < kStakes; ++k) sum += shares[k] * std::exp(logs[k] - most);
  return most + std::log(sum);
}

// The largest total that is known to be refuted from below, or `least` when none in [least, most] is: the
// wealth falls with theta.
double lower_end(const std::vector<Bet>& bets, const PerStake& shares, double least, double most,
                 double log_limit) {
  if (bets.empty() || most <= least || log_wealth(bets, shares, least) < log_limit) return least;
  if (log_wealth(bets, shares, most) >= log_limit) return most;
  double out = least;
  double in = most;
  for (int i = 0; i < 30; ++i) {
    const double middle = out + (in - out) / 2;
    (log_wealth(bets, shares, middle) < log_limit ? in : out) = middle;
  }
  return out;
}

/// Sums over the counted strata that need no order.
struct Sums {
  double low = 0, high = 0;            ///< Bonferroni
  double known = 0, known_misses = 0;  ///< parts of the total that were observed
  double estimate = 0;
};

/// Draws whose hits are at least `least`.
std::uint64_t hits_of(const StratumHits& stratum, unsigned least) {
  return static_cast<std::uint64_t>(std::count_if(stratum.hits.begin(), stratum.hits.end(),
                                                  [least](std::uint8_t hits) { return hits >= least; }));
}

Sums sums_of(const std::vector<StratumHits>& strata, double bits, double number, double alpha) {
  Sums sums;
  for (const StratumHits& stratum : strata) {
    if (!stratum.counted) continue;
    const std::uint64_t drawn = stratum.hits.size();
    const double weight = static_cast<double>(stratum.bits) / bits / stratum.most;
    for (unsigned least = 1; least <= stratum.most; ++least) {
      const auto hits = hits_of(stratum, least);
      const Interval part = anytime_finite(hits, drawn, stratum.bits, 1 - alpha / (number * stratum.most));
      sums.low += weight * part.low;
      sums.high += weight * part.high;
      sums.known += static_cast<double>(hits) / bits / stratum.most;
      sums.known_misses += static_cast<double>(drawn - hits) / bits / stratum.most;
      sums.estimate += weight * (drawn == 0 ? 0.5 : static_cast<double>(hits) / static_cast<double>(drawn));
    }
  }
  return sums;
}

double counted_bits(const std::vector<StratumHits>& strata) {
  double bits = 0;
  for (const StratumHits& stratum : strata) bits += stratum.counted ? static_cast<double>(stratum.bits) : 0;
  return bits;
}

double counted_strata(const std::vector<StratumHits>& strata) {
  return static_cast<double>(std::count_if(strata.begin(), strata.end(),
                                           [](const StratumHits& stratum) { return stratum.counted; }));
}

// Bets on (1 + one - other) / 2, for one pick of each: the misses of `other` have the total 1 - its total.
std::vector<Bet> joint_bets(const TotalSample& one, const TotalSample& other) {
  const auto hits = Bettor(*one.strata, false).bets(*one.rounds);
  const auto misses = Bettor(*other.strata, true).bets(*other.rounds);
  std::vector<Bet> joint;
  for (std::size_t i = 0; i < std::min(hits.size(), misses.size()); ++i) {
    const double reach = (hits[i].reach + misses[i].reach) / 2;
    const double variance = (hits[i].reach / hits[i].scale + misses[i].reach / misses[i].scale) / 4;
    joint.push_back({(hits[i].above + misses[i].above) / 2, (hits[i].least + misses[i].least) / 2,
                     reach / variance, reach});
  }
  return joint;
}

}  // namespace

Interval total_difference(const TotalSample& first, const TotalSample& second, double confidence,
                          double aim) {
  const double alpha = 1 - confidence;
  const auto sums = [&](const TotalSample& sample) {
    const double bits = counted_bits(*sample.strata);
    if (bits <= 0) fail(ErrorCode::bad_input, "the interval of a total needs at least one stratum");
    return sums_of(*sample.strata, bits, counted_strata(*sample.strata), (1 - kBetShare) * alpha / 2);
  };
  const Sums one = sums(first);
  const Sums other = sums(second);
  const double log_limit = std::log(2 / (kBetShare * alpha));
  const PerStake shares = first_shares(aim / 2);
  // The difference is at least `least` and at most `most`, according to the draws so far.
  const double least = other.known - (1 - one.known_misses);
  const double most = 1 - other.known_misses - one.known;
  const double low =
      2 * lower_end(joint_bets(second, first), shares, (1 + least) / 2, (1 + most) / 2, log_limit) - 1;
  const double high =
      1 - 2 * lower_end(joint_bets(first, second), shares, (1 - most) / 2, (1 - least) / 2, log_limit);
  const Interval summed{other.low - one.high, other.high - one.low};
  Interval interval{std::max(low, summed.low), std::min(high, summed.high)};
  if (interval.low > interval.high) interval = summed;
  const double estimate = other.estimate - one.estimate;
  return {std::min(interval.low, estimate), std::max(interval.high, estimate)};
}

Interval total_interval(const std::vector<PickedRound>& rounds, const std::vector<StratumHits>& strata,
                        double confidence, double aim) {
  double bits = 0;
  double number = 0;
  const StratumHits* only = nullptr;
  for (const StratumHits& stratum : strata) {
    if (!stratum.counted) continue;
    bits += static_cast<double>(stratum.bits);
    number += 1;
    only = &stratum;
  }
  if (only == nullptr) fail(ErrorCode::bad_input, "the interval of a total needs at least one stratum");
  if (number == 1 && only->most == 1)
    return anytime_finite(hits_of(*only, 1), only->hits.size(), only->bits, confidence);
  const double alpha = 1 - confidence;
  const Sums sums = sums_of(strata, bits, number, (1 - kBetShare) * alpha);
  const double log_limit = std::log(2 / (kBetShare * alpha));  // Ville's inequality, once for each side
  const double least = sums.known;
  const double most = 1 - sums.known_misses;
  const PerStake shares = first_shares(number == static_cast<double>(strata.size()) ? aim : 0);
  const auto below = Bettor(strata, false).bets(rounds);
  const auto above = Bettor(strata, true).bets(rounds);
  Interval interval{std::max(sums.low, lower_end(below, shares, least, most, log_limit)),
                    std::min(sums.high, 1 - lower_end(above, shares, 1 - most, 1 - least, log_limit))};
  // If the two contradict each other, one of them is wrong, which happens with probability 1 - confidence at
  // most; the returned interval changes nothing about that.
  if (interval.low > interval.high) interval = {sums.low, sums.high};
  interval.low = std::clamp(std::min(interval.low, sums.estimate), 0.0, 1.0);
  interval.high = std::clamp(std::max(interval.high, sums.estimate), 0.0, 1.0);
  return interval;
}

}  // namespace bitrift::analyze
