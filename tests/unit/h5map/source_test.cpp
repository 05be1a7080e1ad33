#include "h5map/structure/source.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "h5map/structure/seal.h"
#include "unit/scratch.h"

namespace bitrift::h5map::source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The values that the author of lookup3 prints with it (driver5).
TEST(Lookup3, HasItsAuthorsValues) {
  EXPECT_EQ(lookup3({}), 0xdeadbeefU);
  EXPECT_EQ(lookup3(bytes("Four score and seven years ago")), 0x17770551U);
}

TEST(Source, NothingBeyondTheEndIsRead) {
  const Source source({1, 2, 3, 4}, "four.h5");
  EXPECT_THAT(source.read(1, 2, "header"), ElementsAre(2, 3));
  EXPECT_THAT(source.read(4, 0, "header"), ElementsAre());
  for (const auto& [offset, count] : {std::pair<std::uint64_t, std::uint64_t>{3, 2},
                                      {5, 0},
                                      {~std::uint64_t{0}, 1},
                                      {1, ~std::uint64_t{0}}}) {
    EXPECT_THAT(([&, at = offset, n = count] { (void)source.read(at, n, "header"); }),
                ThrowsMessage<Error>(HasSubstr("four.h5: header at byte")));
  }
}

TEST(Source, AFileReadsAsItsBytesInAnyOrder) {
  const testing::Scratch scratch;
  std::string text(20000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  testing::write_bytes(scratch / "f", text);
  const Source source(scratch / "f");
  ASSERT_EQ(source.size(), text.size());
  for (const auto& [offset, count] : {std::pair<std::size_t, std::size_t>{19990, 10},
                                      {0, 8},
                                      {100, 5000},
                                      {4090, 12},
                                      {8, 4096},
                                      {19999, 1},
                                      {3, 4}}) {
    const auto found = source.read(offset, count, "text");
    const auto expected = bytes(text).subspan(offset, count);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end())) << offset;
  }
}

TEST(Cursor, AnAddressOfAnySizeMayBeUndefined) {
  const std::vector<std::uint8_t> data = {0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 1};
  Cursor cursor(data, "f", "field");
  EXPECT_EQ(cursor.address(4), undefined);
  EXPECT_EQ(cursor.address(4), 0xfffffffeU);
  EXPECT_EQ(cursor.left(), 1U);
  EXPECT_THAT([&] { (void)cursor.u16(); }, ThrowsMessage<Error>("f: field ends too early"));
}

}  // namespace
}  // namespace bitrift::h5map::source_test
