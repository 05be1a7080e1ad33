#include "study/policy/useful_time.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"

namespace bitrift::study {

using record::SaveMode;

double time_to_kill(std::uint64_t seed, std::uint64_t life, double mean) {
  return -mean * std::log1p(-random_unit(derive_key(seed, "study.policy/kill"), life, 0));
}

std::int64_t computed_interval(SaveMode mode, const PolicyCosts& costs, double mean) {
  const double seconds = mode == SaveMode::sync
                             ? record::daly_interval(costs.block, mean)
                             : record::asynchronous_interval(costs.block, costs.persist, mean);
  return record::steps_of_interval(seconds, costs.step);
}

namespace {

// When the first checkpoint of a life is complete, and the time between two.
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

UsefulTime ratio_of(const std::vector<Part>& parts) {
  double work = 0, seconds = 0;
  for (const Part& one : parts) {
    work += one.work;
    seconds += one.seconds;
  }
  if (seconds <= 0) return {};
  const auto n = static_cast<double>(parts.size());
  const double ratio = work / seconds;
  double squares = 0;
  for (const Part& one : parts) squares += std::pow(one.work - ratio * one.seconds, 2);
  return {ratio, n < 2 ? 0 : std::sqrt(squares / (n - 1) / n) / (seconds / n)};
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
  // The expected number of checkpoints of a life: the sum of the probabilities to live so long.
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
  return ratio_of(parts);
}

ReplayedKills replayed_kills(SaveMode mode, std::int64_t interval, const std::vector<TimedLife>& lives) {
  std::vector<Part> before, own, differences;
  for (const TimedLife& one : lives) {
    const double seconds = one.life.seconds;
    before.push_back({predicted_work(mode, interval, one.costs, one.life), seconds});
    own.push_back({predicted_work(mode, interval, one.own_costs(), one.life), seconds});
    differences.push_back({measured_work(one) - before.back().work, seconds});
  }
  return {ratio_of(before).fraction, ratio_of(own).fraction, ratio_of(differences)};
}

}  // namespace bitrift::study
