#include "analyze/rates/paired.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <boost/math/distributions/binomial.hpp>

#include "analyze/rates/total_interval.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

constexpr double kLeastP = 1e-12;

void check_draws(const StratumPairs& pairs) {
  if (pairs.first.size() == pairs.second.size()) return;
  fail(ErrorCode::bad_input, "pairs of {} and {} draws: give the draws that both arms have",
       pairs.first.size(), pairs.second.size());
}

StratumHits values_of(const StratumPairs& pairs) {
  check_draws(pairs);
  StratumHits values;
  values.bits = pairs.bits;
  values.counted = pairs.counted;
  values.most = 2;
  values.hits.reserve(pairs.first.size());
  for (std::size_t draw = 0; draw < pairs.first.size(); ++draw) {
    const int value =
        1 + static_cast<int>(pairs.second[draw] != 0) - static_cast<int>(pairs.first[draw] != 0);
    values.hits.push_back(static_cast<std::uint8_t>(value));
  }
  return values;
}

}  // namespace

PairCounts count_pairs(const std::vector<StratumPairs>& strata) {
  PairCounts counts;
  for (const StratumPairs& stratum : strata) {
    if (!stratum.counted) continue;
    check_draws(stratum);
    for (std::size_t draw = 0; draw < stratum.first.size(); ++draw) {
      const bool first = stratum.first[draw] != 0;
      const bool second = stratum.second[draw] != 0;
      ++(first ? second ? counts.both : counts.first_only : second ? counts.second_only : counts.neither);
    }
  }
  return counts;
}

double exact_mcnemar(std::uint64_t first_only, std::uint64_t second_only) {
  if (first_only == second_only) return 1;
  const boost::math::binomial tosses(static_cast<double>(first_only + second_only), 0.5);
  return std::min(1.0, 2 * cdf(tosses, static_cast<double>(std::min(first_only, second_only))));
}

double exact_mcnemar_greater(std::uint64_t first_only, std::uint64_t second_only) {
  if (second_only == 0) return 1;
  const boost::math::binomial tosses(static_cast<double>(first_only + second_only), 0.5);
  return cdf(complement(tosses, static_cast<double>(second_only - 1)));
}

double smallest_error(const std::function<bool(double)>& refuted) {
  double in = 1;  // an error probability at which it holds; 1: none is known
  double out = kLeastP;
  if (refuted(out)) return 0;
  for (int i = 0; i < 24; ++i) {
    const double middle = std::sqrt(in * out);
    (refuted(middle) ? in : out) = middle;
  }
  return in;
}

Interval paired_interval(const std::vector<PickedRound>& rounds, const std::vector<StratumPairs>& strata,
                         double confidence) {
  std::vector<StratumHits> values;
  values.reserve(strata.size());
  for (const StratumPairs& stratum : strata) values.push_back(values_of(stratum));
  // theta has half the scale of the difference.
  const Interval theta = total_interval(rounds, values, confidence, expected_difference / 2);
  return {2 * theta.low - 1, 2 * theta.high - 1};
}

PairedDifference paired_difference(const std::vector<PickedRound>& rounds,
                                   const std::vector<StratumPairs>& strata, double confidence) {
  PairedDifference result;
  result.counts = count_pairs(strata);
  result.interval = paired_interval(rounds, strata, confidence);
  result.mcnemar = exact_mcnemar(result.counts.first_only, result.counts.second_only);
  result.p = smallest_error([&](double error) {
    const Interval interval = paired_interval(rounds, strata, 1 - error);
    return interval.low > 0 || interval.high < 0;
  });
  return result;
}

std::vector<double> holm(const std::vector<double>& p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto left = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, left * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

}  // namespace bitrift::analyze
