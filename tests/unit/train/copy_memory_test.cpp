#include "train/state/copy_memory.h"

#include <cstddef>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace bitrift::train::copy_memory_test {
namespace {

TEST(CopyPastCaches, CopiesEveryByteAndNoOther) {
  constexpr std::size_t large = std::size_t{1} << 20, margin = 200;
  std::vector<std::uint8_t> from(large + margin), expected(large + 2 * margin), to;
  std::iota(from.begin(), from.end(), std::uint8_t{7});
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{63}, large - 1, large, large + 1, large + 64}) {
    for (const std::size_t shift : {0U, 1U, 8U, 63U, 64U, 65U}) {
      for (const std::size_t start : {0U, 3U, 64U}) {
        to.assign(large + 2 * margin, 0);
        copy_past_caches(to.data() + shift, from.data() + start, bytes);
        expected.assign(large + 2 * margin, 0);
        std::copy_n(from.data() + start, bytes, expected.data() + shift);
        ASSERT_EQ(to, expected) << bytes << " bytes, " << shift << ", " << start;
      }
    }
  }
}

}  // namespace
}  // namespace bitrift::train::copy_memory_test
