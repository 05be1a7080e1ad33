#include "core/byte_size.h"

#include <gtest/gtest.h>

#include "tests_support.h"

namespace bitrift::byte_size_test {
namespace {

TEST(ByteSize, ReadsNumbersWithBinaryUnits) {
  EXPECT_EQ(parse_byte_size("1"), 1U);
  EXPECT_EQ(parse_byte_size("4096"), 4096U);
  EXPECT_EQ(parse_byte_size("512K"), 512U * 1024);
  EXPECT_EQ(parse_byte_size("1.5G"), 1610612736U);
  EXPECT_EQ(parse_byte_size("2GiB"), 2147483648U);
  EXPECT_EQ(parse_byte_size("3T"), 3298534883328U);
}

TEST(ByteSize, RefusesEverythingElse) {
  for (const char* text :
       {"", "G", "-1", "0", "0.5", "1e9", "4 G", "4GB", "4g", "4GiBs", "nan", "inf", "9999T", "0x10"}) {
    EXPECT_NE(tests::error_of([&] { static_cast<void>(parse_byte_size(text)); }), "") << text;
  }
}

TEST(ByteSize, TextHasAtMostThreeDigits) {
  EXPECT_EQ(byte_size_text(0), "0 bytes");
  EXPECT_EQ(byte_size_text(1), "1 byte");
  EXPECT_EQ(byte_size_text(1023), "1023 bytes");
  EXPECT_EQ(byte_size_text(1024), "1.0 KiB");
  EXPECT_EQ(byte_size_text(10239), "10 KiB");
  EXPECT_EQ(byte_size_text(1047552), "1.0 MiB");
  EXPECT_EQ(byte_size_text(std::uint64_t{4} << 30U), "4.0 GiB");
  EXPECT_EQ(byte_size_text(std::uint64_t{4096} << 40U), "4096 TiB");
}

}  // namespace
}  // namespace bitrift::byte_size_test
