#include "train/state/copy_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace bitrift::train::copy_memory_test {
namespace {

TEST(CopyMemory, KeepsItsBytesAsItGrows) {
  constexpr std::size_t small = std::size_t{3} << 20, large = std::size_t{40} << 20;
  CopyMemory memory;
  memory.reserve(small);
  std::memset(memory.data(), 7, small);
  memory.reserve(large);
  EXPECT_EQ(memory.bytes(), large);
  const std::span bytes(memory.data(), large);
  EXPECT_TRUE(std::ranges::all_of(bytes.first(small), [](std::uint8_t byte) { return byte == 7; }));
  EXPECT_TRUE(std::ranges::all_of(bytes.subspan(small), [](std::uint8_t byte) { return byte == 0; }));
  memory.reserve(1);
  EXPECT_EQ(memory.bytes(), large);
}

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
