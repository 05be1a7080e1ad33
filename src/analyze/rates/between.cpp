#include "analyze/rates/between.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/chi_squared.hpp>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

// The mean of all levels, weighted by 1 / (its variance + `added`).
double mean_with(const std::vector<LevelRate>& levels, double added) {
  double sum = 0;
  double weights = 0;
  for (const LevelRate& level : levels) {
    const double weight = 1 / (level.variance + added);
    sum += weight * level.estimate;
    weights += weight;
  }
  return sum / weights;
}

}  // namespace

Between between(const std::vector<LevelRate>& levels) {
  if (levels.size() < 2) {
    fail(ErrorCode::bad_input, "the variation between {} levels: at least two are needed", levels.size());
  }
  double weights = 0;
  double squares = 0;
  for (const LevelRate& level : levels) {
    if (!(level.variance > 0 && std::isfinite(level.variance) && std::isfinite(level.estimate))) {
      fail(ErrorCode::bad_input,
           "a level with the rate {} and the variance {}: give finite numbers, the "
           "variance above 0",
           level.estimate, level.variance);
    }
    weights += 1 / level.variance;
    squares += 1 / (level.variance * level.variance);
  }
  Between result;
  const double mean = mean_with(levels, 0);
  for (const LevelRate& level : levels) {
    result.q += (level.estimate - mean) * (level.estimate - mean) / level.variance;
  }
  const double degrees = static_cast<double>(levels.size()) - 1;
  const double variance = std::max(0.0, (result.q - degrees) / (weights - squares / weights));
  result.deviation = std::sqrt(variance);
  result.mean = mean_with(levels, variance);
  result.p = boost::math::cdf(boost::math::complement(boost::math::chi_squared(degrees), result.q));
  return result;
}

}  // namespace bitrift::analyze
