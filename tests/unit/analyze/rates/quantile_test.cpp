#include "analyze/rates/quantile.h"

#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::analyze::quantile_test {
namespace {

// Literals: numpy.quantile(values, p) of NumPy 2.4.6, method "linear", which is type 7.
TEST(Quantile, IsThatOfNumpy) {
  const std::vector<double> seven = {3.5, -1, 10, 0.25, 7, 7, 2};
  EXPECT_DOUBLE_EQ(quantile(seven, 0), -1);
  EXPECT_DOUBLE_EQ(quantile(seven, 0.05), -0.625);
  EXPECT_DOUBLE_EQ(quantile(seven, 0.333), 1.9965);
  EXPECT_DOUBLE_EQ(quantile(seven, 0.5), 3.5);
  EXPECT_DOUBLE_EQ(quantile(seven, 0.95), 9.1);
  EXPECT_DOUBLE_EQ(quantile(seven, 1), 10);
  const std::vector<double> four = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(four, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(four, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(four, 0.95), 3.85);
}

TEST(Quantile, OfOneValueAndOfInfinitiesIsThatValue) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(quantile({3}, 0.95), 3);
  EXPECT_EQ(quantile({infinity, infinity, 1}, 0.95), infinity);
}

TEST(Quantile, OfNothingOrOutsideOfZeroToOneIsRefused) {
  EXPECT_THROW((void)quantile({}, 0.5), Error);
  EXPECT_THROW((void)quantile({1}, 1.5), Error);
  EXPECT_THROW((void)quantile({1}, -0.1), Error);
  EXPECT_THROW((void)quantile({1}, std::numeric_limits<double>::quiet_NaN()), Error);
}

}  // namespace
}  // namespace bitrift::analyze::quantile_test
