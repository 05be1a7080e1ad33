// Quantiles of a sample.
#pragma once

#include <vector>

namespace bitrift::analyze {

/// Type 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996): the default of R and NumPy.
/// With the values sorted and counted from 0, it interpolates linearly at position (n - 1) p. Throws
/// Error(bad_input) without a value, and where p is not in [0, 1]. The values must not be NaN.
[[nodiscard]] double quantile(std::vector<double> values, double p);

}  // namespace bitrift::analyze
