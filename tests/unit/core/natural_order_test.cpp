#include "core/text/natural_order.h"

#include <gtest/gtest.h>

namespace bitrift::natural_order_test {
namespace {

TEST(NaturalOrder, ComparesRunsOfDigitsAsNumbers) {
  EXPECT_TRUE(natural_less("fc2.weight", "fc10.weight"));
  EXPECT_FALSE(natural_less("fc10.weight", "fc2.weight"));
  EXPECT_TRUE(natural_less("conv9", "fc1"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("a1", "a1b"));
  EXPECT_FALSE(natural_less("x7", "x7"));
  EXPECT_NE(natural_less("x07", "x7"), natural_less("x7", "x07"));
  EXPECT_TRUE(natural_less("x99999999999999999998", "x99999999999999999999"));
}

}  // namespace
}  // namespace bitrift::natural_order_test
