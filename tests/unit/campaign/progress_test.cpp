#include "campaign/progress/progress.h"

#include <gtest/gtest.h>

namespace bitrift::campaign::progress_test {
namespace {

TEST(ProgressText, DurationsHaveTwoUnitsAtMost) {
  EXPECT_EQ(duration_text(-1), "0 s");
  EXPECT_EQ(duration_text(0.6), "1 s");
  EXPECT_EQ(duration_text(119), "119 s");
  EXPECT_EQ(duration_text(120), "2 min 00 s");
  EXPECT_EQ(duration_text(7199), "119 min 59 s");
  EXPECT_EQ(duration_text(2 * 3600 + 5 * 60), "2 h 05 min");
  EXPECT_EQ(duration_text(3 * 86400 + 4 * 3600), "3 d 04 h");
  EXPECT_NE(duration_text(1e300), "");
}

TEST(ProgressText, BarIsFullOnlyAtTheEnd) {
  EXPECT_EQ(bar_text(0, 7, 4), "[....]");
  EXPECT_EQ(bar_text(6, 7, 4), "[###.]");
  EXPECT_EQ(bar_text(7, 7, 4), "[####]");
  EXPECT_EQ(bar_text(9, 7, 4), "[####]");
  EXPECT_EQ(bar_text(0, 0, 4), "[####]");
}

TEST(ProgressText, LinesAreCutToTheTerminal) {
  EXPECT_EQ(fitted("abcdef", 6), "abcdef");
  EXPECT_EQ(fitted("abcdef", 5), "ab...");
  EXPECT_EQ(fitted("abcdef", 2), "ab");
}

}  // namespace
}  // namespace bitrift::campaign::progress_test
