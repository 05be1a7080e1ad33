// How many elements a shape has.
#pragma once

#include <cstdint>
#include <vector>

namespace bitrift {

/// Product of the dimensions; 2^64 - 1 when it does not fit.
[[nodiscard]] std::uint64_t element_count(const std::vector<std::uint64_t>& shape) noexcept;

}  // namespace bitrift
