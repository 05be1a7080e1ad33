#include "core/byte_cursor.h"

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scratch.h"

namespace bitrift::byte_cursor_test {
namespace {

using ::testing::ElementsAre;

const std::vector<std::uint8_t> nine = {1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(ByteCursor, NumbersOfAnySizeAreLittleEndian) {
  ByteCursor cursor(nine, "f", "field");
  EXPECT_EQ(cursor.number(0), 0U);
  EXPECT_EQ(cursor.u8(), 0x01U);
  EXPECT_EQ(cursor.u16(), 0x0302U);
  EXPECT_EQ(cursor.number(3), 0x060504U);
  EXPECT_EQ(cursor.position(), 6U);
  EXPECT_EQ(cursor.left(), 3U);
  cursor = ByteCursor(nine, "f", "field");
  EXPECT_EQ(cursor.u64(), 0x0807060504030201U);
  cursor = ByteCursor(nine, "f", "field");
  cursor.skip(5);
  EXPECT_EQ(cursor.u32(), 0x09080706U);
  EXPECT_EQ(cursor.left(), 0U);
}

TEST(ByteCursor, TakesAPieceOfTheBytesThemselves) {
  ByteCursor cursor(nine, "f", "field");
  cursor.skip(2);
  const auto piece = cursor.take(3);
  EXPECT_THAT(piece, ElementsAre(3, 4, 5));
  EXPECT_EQ(piece.data(), nine.data() + 2);
  EXPECT_TRUE(cursor.take(0).empty());
}

TEST(ByteCursor, NothingBeyondTheEndIsTakenAndTheErrorNamesThePart) {
  ByteCursor cursor(nine, "f", "field");
  cursor.skip(6);
  for (const std::uint64_t count :
       {std::uint64_t{4}, std::uint64_t{10}, ~std::uint64_t{0}, ~std::uint64_t{5}}) {
    EXPECT_ERROR((void)cursor.take(count), bad_file, "f: field ends too early");
  }
  EXPECT_ERROR((void)cursor.u32(), bad_file, "f: field ends too early");
  EXPECT_EQ(cursor.left(), 3U);
  ByteCursor nameless({}, "", "a request", ErrorCode::internal);
  EXPECT_ERROR((void)nameless.u8(), internal, "a request ends too early");
}

}  // namespace
}  // namespace bitrift::byte_cursor_test
