#include "analyze/rates/quantile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/error.h"

namespace bitrift::analyze {

double quantile(std::vector<double> values, double p) {
  if (values.empty()) fail(ErrorCode::bad_input, "a quantile needs at least one value");
  if (!(p >= 0 && p <= 1)) fail(ErrorCode::bad_input, "quantile {}: give a share from 0 to 1", p);
  std::sort(values.begin(), values.end());
  const double position = static_cast<double>(values.size() - 1) * p;
  const auto below = static_cast<std::size_t>(std::floor(position));
  const double low = values[below];
  const double high = values[std::min(below + 1, values.size() - 1)];
  // Two equal infinities have the difference 0.
  return low == high ? low : low + (position - std::floor(position)) * (high - low);
}

}  // namespace bitrift::analyze
