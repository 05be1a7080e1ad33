// The median.
#pragma once

#include <span>

namespace bitrift {

/// Changes the order of the values. The midpoint of the two middle values if their number is even; equal
/// infinities give that infinity. Without values, NaN.
[[nodiscard]] double median(std::span<double> values);

}  // namespace bitrift
