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
  return std::exp(-persist / mean) / record::daly_slowdown(seconds, block, costs.restart, mean);
}

UsefulTime measured_useful(const std::vector<Life>& lives, double step) {
  double steps = 0, seconds = 0;
  for (const Life& life : lives) {
    steps += static_cast<double>(life.steps);
    seconds += life.seconds;
  }
  if (seconds <= 0) return {};
  const auto n = static_cast<double>(lives.size());
  const double ratio = steps / seconds;
  double squares = 0;
  for (const Life& life : lives)
    squares += std::pow(static_cast<double>(life.steps) - ratio * life.seconds, 2);
  const double error = n < 2 ? 0 : std::sqrt(squares / (n - 1) / n) / (seconds / n);
  return {step * ratio, step * error};
}

}  // namespace bitrift::study
