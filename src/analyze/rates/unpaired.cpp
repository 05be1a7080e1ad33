#include "analyze/rates/unpaired.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

constexpr double kNegligible = 1e-40;  // far below what a p-value distinguishes

/// Probabilities of least, least + 1, ...
struct Distribution {
  std::uint64_t least = 0;
  std::vector<double> probability = {1};
};

// Leaves out probabilities that are too small to matter: a sum over strata then takes little time.
Distribution trimmed(Distribution given) {
  const auto likely = [](double p) { return p > kNegligible; };
  auto& list = given.probability;
  list.erase(std::find_if(list.rbegin(), list.rend(), likely).base(), list.end());
  const auto begin = std::find_if(list.begin(), list.end(), likely);
  given.least += static_cast<std::uint64_t>(begin - list.begin());
  list.erase(list.begin(), begin);
  return given;
}

// Hits among `drawn` of `all` trials, `hits` of which are hits: from the ratio of neighbours, outwards from
// the most likely number.
Distribution hypergeometric(std::uint64_t drawn, std::uint64_t hits, std::uint64_t all) {
  Distribution result;
  result.least = drawn + hits > all ? drawn + hits - all : 0;
  const std::uint64_t most = std::min(drawn, hits);
  auto& list = result.probability;
  list.assign(most - result.least + 1, 0.0);
  const auto mode = static_cast<std::uint64_t>(
      (static_cast<double>(drawn) + 1) * (static_cast<double>(hits) + 1) / (static_cast<double>(all) + 2));
  const std::uint64_t top = std::clamp(mode, result.least, most) - result.least;
  // P(k + 1) / P(k)
  const auto ratio = [&](std::uint64_t at) {
    const auto k = static_cast<double>(result.least + at);
    return (static_cast<double>(hits) - k) * (static_cast<double>(drawn) - k) / (k + 1) /
           (static_cast<double>(all) - static_cast<double>(hits) - static_cast<double>(drawn) + k + 1);
  };
  list[top] = 1;
  for (std::uint64_t at = top; at + 1 < list.size(); ++at) list[at + 1] = list[at] * ratio(at);
  for (std::uint64_t at = top; at > 0; --at) list[at - 1] = list[at] / ratio(at - 1);
  const double sum = std::accumulate(list.begin(), list.end(), 0.0);
  for (double& p : list) p /= sum;
  return trimmed(std::move(result));
}

// The values one + weight * other.
Distribution sum_of(const Distribution& one, const Distribution& other, std::uint64_t weight) {
  Distribution sum{one.least + weight * other.least, {}};
  sum.probability.assign(one.probability.size() + weight * (other.probability.size() - 1), 0.0);
  for (std::size_t j = 0; j < other.probability.size(); ++j) {
    for (std::size_t i = 0; i < one.probability.size(); ++i)
      sum.probability[i + weight * j] += one.probability[i] * other.probability[j];
  }
  return trimmed(std::move(sum));
}

}  // namespace

std::uint64_t weight_of_hit(std::uint64_t hits, std::uint64_t trials) {
  const double rate = (static_cast<double>(hits) + 1) / (static_cast<double>(trials) + 2);
  return static_cast<std::uint64_t>(std::lround(2 / std::sqrt(rate * (1 - rate))));
}

FisherTest stratified_fisher(const std::vector<TwoCounts>& strata) {
  Distribution hits;
  std::uint64_t seen = 0;
  std::size_t used = 0;
  for (const TwoCounts& one : strata) {
    if (one.first_hits > one.first_trials || one.second_hits > one.second_trials) {
      fail(ErrorCode::bad_input,
           "{} hits in {} trials and {} in {}: a stratum has at most as many hits as trials", one.first_hits,
           one.first_trials, one.second_hits, one.second_trials);
    }
    if (one.first_trials == 0 || one.second_trials == 0) continue;
    ++used;
    const std::uint64_t all = one.first_trials + one.second_trials;
    const std::uint64_t hits_of_both = one.first_hits + one.second_hits;
    const std::uint64_t weight = weight_of_hit(hits_of_both, all);
    seen += weight * one.second_hits;
    hits = sum_of(hits, hypergeometric(one.second_trials, hits_of_both, all), weight);
  }
  const std::uint64_t end = hits.least + hits.probability.size();
  const double here = seen >= hits.least && seen < end ? hits.probability[seen - hits.least] : 0;
  double as_unlikely = 0;
  double greater = 0;
  double fewer = 0;
  // Sums from the rare end, so that small ones keep their digits. Numbers that are equally likely differ by
  // rounding errors.
  for (std::size_t at = hits.probability.size(); at-- > 0;) {
    const double p = hits.probability[at];
    if (hits.least + at >= seen) greater += p;
    if (p <= here * (1 + 1e-7)) as_unlikely += p;
  }
  for (std::size_t at = 0; at < hits.probability.size() && hits.least + at <= seen; ++at)
    fewer += hits.probability[at];
  FisherTest test{used == 1 ? as_unlikely : 2 * std::min(fewer, greater), greater};
  constexpr double least = 1e-30;
  test.greater = test.greater < least ? 0 : std::min(1.0, test.greater);
  test.two_sided = test.two_sided < least ? 0 : std::min(1.0, test.two_sided);
  return test;
}

}  // namespace bitrift::analyze
