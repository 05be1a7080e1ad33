#include "comm/model/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_support.h"

namespace bitrift::comm {
namespace {

using tests::error_of;

TEST(Quantity, BytesAreNumbersWithPowersOfAThousand) {
  EXPECT_EQ(bytes_from_text("1", "x"), 1);
  EXPECT_EQ(bytes_from_text("102M", "x"), 102e6);
  EXPECT_EQ(bytes_from_text("1.34G", "x"), 1.34e9);
  EXPECT_EQ(bytes_from_text("0.5K", "x"), 500);
  EXPECT_EQ(bytes_from_text("1000T", "x"), 1e15);
  EXPECT_EQ(bandwidth_from_text("83G", "x"), 83e9);
}

TEST(Quantity, TimesNeedAUnit) {
  EXPECT_EQ(seconds_from_text("0.1us", "x"), 1e-7);
  EXPECT_EQ(seconds_from_text("500ns", "x"), 5e-7);
  EXPECT_EQ(seconds_from_text("100ns", "x"), 1e-7);
  EXPECT_EQ(seconds_from_text("2ms", "x"), 2e-3);
  EXPECT_EQ(seconds_from_text("0s", "x"), 0);
}

TEST(Quantity, EverythingElseIsRefused) {
  for (const char* text : {"", "M", "-1M", "+1M", "1e6", "1 M", "1MB", "1m", ".5M", "5.M", "1.2.3M", "0",
                           "0.1", "1001T", "nan", "inf", "0x10", "1,5M", "1M "}) {
    EXPECT_THAT(error_of([&] { (void)bytes_from_text(text, "--bytes"); }),
                testing::StartsWith(fmt::format("--bytes '{}': expected bytes", text)));
    EXPECT_THAT(error_of([&] { (void)bandwidth_from_text(text, "--bandwidth"); }),
                testing::HasSubstr("bytes per second"));
  }
  for (const char* text : {"", "1", "1u", "us", "-1us", "1e-6s", "1 us", "1US", "1001s", "0.us"}) {
    EXPECT_THAT(error_of([&] { (void)seconds_from_text(text, "--latency"); }),
                testing::StartsWith(fmt::format("--latency '{}': expected a time", text)));
  }
}

TEST(Quantity, IsShownInTheUnitThatFits) {
  EXPECT_EQ(seconds_text(853.7e-6), "853.7 us");
  EXPECT_EQ(seconds_text(1.5e-3), "1.500 ms");
  EXPECT_EQ(seconds_text(0), "0.000 ns");
  EXPECT_EQ(bytes_text(102e6), "102.0 MB");
  EXPECT_EQ(bytes_text(1.34e9), "1.340 GB");
  EXPECT_EQ(bytes_text(12), "12.00 B");
}

}  // namespace
}  // namespace bitrift::comm
