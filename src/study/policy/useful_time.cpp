#include "study/policy/useful_time.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift::study {

using record::SaveMode;

double time_to_kill(const PolicySpec& spec, std::uint64_t life) {
  const std::uint64_t stratum = Permutation(spec.lives, derive_key(spec.seed, "study.policy/stratum"))(life);
  const double place = random_unit(derive_key(spec.seed, "study.policy/kill"), life, 0);
  const double quantile = (static_cast<double>(stratum) + place) / static_cast<double>(spec.lives);
  return -spec.mean_time_between_failures * std::log1p(-quantile);
}

std::int64_t computed_interval(SaveMode mode, const PolicyCosts& costs, double mean) {
  const double seconds = mode == SaveMode::sync
                             ? record::daly_interval(costs.block, mean)
                             : record::asynchronous_interval(costs.block, costs.persist, mean);
  return record::steps_of_interval(seconds, costs.step);
}

namespace {

// The time at which the first checkpoint of a life is complete, and the time between two.
struct Completions {
  double first = 0, between = 0;
};

Completions completions(SaveMode mode, std::int64_t interval, const PolicyCosts& costs) {
  const double work = static_cast<double>(interval) * costs.step;
  const double persist = mode == SaveMode::async ? costs.persist : 0;
  return {costs.restart + work + costs.block + persist, costs.block + std::max(work, persist)};
}

struct Part {
  double work = 0, seconds = 0;
};

/// For a sample that is divided into groups of `group` parts, in order: the last group is larger if the
/// division has a remainder. The whole sample is one group if there are fewer parts than two groups need.
UsefulTime ratio_of(const std::vector<Part>& parts, std::size_t group) {
  double work = 0, seconds = 0;
  for (const Part& one : parts) {
    work += one.work;
    seconds += one.seconds;
  }
  if (seconds <= 0) return {};
  const std::size_t n = parts.size();
  const double ratio = work / seconds;
  if (n < 2) return {ratio};
  const std::size_t groups = std::max<std::size_t>(1, n / group);
  double variance = 0;  // standard error of the sum of the residuals work - ratio x seconds
  for (std::size_t i = 0; i < groups; ++i) {
    const std::size_t first = i * group, last = i + 1 == groups ? n : first + group;
    const auto size = static_cast<double>(last - first);
    double sum = 0, squares = 0;
    for (std::size_t k = first; k < last; ++k) {
      const double residual = parts[k].work - ratio * parts[k].seconds;
      sum += residual;
      squares += residual * residual;
    }
    variance += size / (size - 1) * std::max(0.0, squares - sum * sum / size);
  }
  return {ratio, std::sqrt(variance) / seconds, n - groups};
}

double measured_work(const TimedLife& one) {
  return static_cast<double>(one.life.steps) * one.own_costs().step;
}

double predicted_work(SaveMode mode, std::int64_t interval, const PolicyCosts& costs, const Life& life) {
  return static_cast<double>(predicted_steps(mode, interval, costs, life.seconds)) * costs.step;
}

}  // namespace

double predicted_useful(SaveMode mode, std::int64_t interval, const PolicyCosts& costs, double mean) {
  const Completions times = completions(mode, interval, costs);
  // The expected number of checkpoints of a life: the sum of the probabilities of living that long.
  const double checkpoints = std::exp(-times.first / mean) / -std::expm1(-times.between / mean);
  return static_cast<double>(interval) * costs.step * checkpoints / mean;
}

std::int64_t predicted_steps(SaveMode mode, std::int64_t interval, const PolicyCosts& costs, double seconds) {
  const Completions times = completions(mode, interval, costs);
  if (seconds < times.first) return 0;
  return interval * (1 + static_cast<std::int64_t>((seconds - times.first) / times.between));
}

PolicyCosts TimedLife::own_costs() const {
  PolicyCosts own = costs;
  if (life.step > 0) own.step = life.step;
  if (life.block > 0) own.block = life.block;
  if (life.persist > 0) own.persist = life.persist;
  return own;
}

void MeanCosts::add(const PolicyCosts& costs, double weight) {
  weight_ += weight;
  sum_.step += weight * costs.step;
  sum_.block += weight * costs.block;
  sum_.persist += weight * costs.persist;
  sum_.restart += weight * costs.restart;
}

PolicyCosts MeanCosts::value() const {
  if (!any()) return {};
  return {sum_.step / weight_, sum_.block / weight_, sum_.persist / weight_, sum_.restart / weight_};
}

PolicyCosts mean_own_costs(const std::vector<TimedLife>& lives) {
  MeanCosts own, before;
  for (const TimedLife& one : lives) {
    before.add(one.costs);
    if (one.life.block > 0) own.add(one.own_costs(), static_cast<double>(one.life.steps));
  }
  if (!own.any()) return before.value();
  PolicyCosts mean = own.value();
  mean.restart = before.value().restart;
  return mean;
}

UsefulTime measured_useful(const std::vector<TimedLife>& lives) {
  std::vector<Part> parts;
  parts.reserve(lives.size());
  for (const TimedLife& one : lives) parts.push_back({measured_work(one), one.life.seconds});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tie(a.seconds, a.work) < std::tie(b.seconds, b.work);
  });
  return ratio_of(parts, 2);
}

ReplayedKills replayed_kills(SaveMode mode, std::int64_t interval, const std::vector<TimedLife>& lives) {
  std::vector<Part> before, own, differences;
  for (const TimedLife& one : lives) {
    const double seconds = one.life.seconds;
    before.push_back({predicted_work(mode, interval, one.costs, one.life), seconds});
    own.push_back({predicted_work(mode, interval, one.own_costs(), one.life), seconds});
    differences.push_back({measured_work(one) - before.back().work, seconds});
  }
  const std::size_t all = lives.size();
  return {ratio_of(before, all).fraction, ratio_of(own, all).fraction, ratio_of(differences, all)};
}

}  // namespace bitrift::study
