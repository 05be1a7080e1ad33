#include "core/number/shape.h"

#include <limits>

namespace bitrift {

std::uint64_t element_count(const std::vector<std::uint64_t>& shape) noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0) return 0;
  }
  for (const std::uint64_t dimension : shape) {
    if (count > std::numeric_limits<std::uint64_t>::max() / dimension) {
      return std::numeric_limits<std::uint64_t>::max();
    }
    count *= dimension;
  }
  return count;
}

}  // namespace bitrift
