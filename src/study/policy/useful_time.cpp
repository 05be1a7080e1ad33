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

double predicted_useful(SaveMode mode, std::int64_t interval, const PolicyCosts& costs, double mean) {
  const double seconds = static_cast<double>(interval) * costs.step;
  const double persist = mode == SaveMode::async ? costs.persist : 0;
  // A save waits for the one before it.
  const double block = costs.block + std::max(0.0, persist - seconds);
  return 1 / record::asynchronous_slowdown(seconds, block, persist, costs.restart, mean);
}

UsefulTime measured_useful(const std::vector<TimedLife>& lives) {
  const auto useful = [](const TimedLife& one) { return static_cast<double>(one.life.steps) * one.step; };
  double work = 0, seconds = 0;
  for (const TimedLife& one : lives) {
    work += useful(one);
    seconds += one.life.seconds;
  }
  if (seconds <= 0) return {};
  const auto n = static_cast<double>(lives.size());
  const double ratio = work / seconds;
  double squares = 0;
  for (const TimedLife& one : lives) squares += std::pow(useful(one) - ratio * one.life.seconds, 2);
  return {ratio, n < 2 ? 0 : std::sqrt(squares / (n - 1) / n) / (seconds / n)};
}

}  // namespace bitrift::study
