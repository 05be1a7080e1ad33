// The value in the middle.
#pragma once

#include <span>

namespace bitrift {

/// Changes the order of the values. The midpoint of the two in the middle where their number is even; equal
/// infinities give themselves. Without values, NaN.
[[nodiscard]] double median(std::span<double> values);

}  // namespace bitrift
