#include "analyze/rates/between.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests_support.h"

namespace bitrift::analyze::between_test {
namespace {

// Two levels, by hand: y = 0 and 1, variances 1/4 and 1/4, so w = 4 and 4. Mean 1/2; q = 4/4 + 4/4 = 2 with 1
// degree of freedom. sum w - sum w^2 / sum w = 8 - 32/8 = 4, so the variance between is (2 - 1)/4 = 1/4.
// p = P(chi2_1 > 2) = erfc(sqrt(2/2)) = erfc(1).
TEST(Between, TwoLevelsByHand) {
  const Between found = between({{0, 0.25}, {1, 0.25}});
  EXPECT_DOUBLE_EQ(found.q, 2);
  EXPECT_DOUBLE_EQ(found.deviation, 0.5);
  EXPECT_DOUBLE_EQ(found.mean, 0.5);
  EXPECT_NEAR(found.p, std::erfc(1.0), 1e-12);
}

// Unequal weights, by hand: y = 0, 2, 6 with variances 1, 1/2, 1/4, so w = 1, 2, 4.
//   mean (0 + 4 + 24)/7 = 4;  q = 1 x 16 + 2 x 4 + 4 x 4 = 40, 2 degrees of freedom, p = exp(-40/2)
//   sum w - sum w^2/sum w = 7 - 21/7 = 4;  variance between (40 - 2)/4 = 9.5
//   mean of the random-effects model: weights 1/10.5, 1/10, 1/9.75
TEST(Between, UnequalVariancesByHand) {
  const Between found = between({{0, 1}, {2, 0.5}, {6, 0.25}});
  EXPECT_NEAR(found.q, 40, 1e-12);
  EXPECT_NEAR(found.deviation, std::sqrt(9.5), 1e-12);
  EXPECT_NEAR(found.p, std::exp(-20.0), 1e-15);
  const double expected = (2 / 10.0 + 6 / 9.75) / (1 / 10.5 + 1 / 10.0 + 1 / 9.75);
  EXPECT_NEAR(found.mean, expected, 1e-12);
}

// q below its degrees of freedom: chance alone explains more than that. The same as the plain mean then.
TEST(Between, NoMoreThanChanceIsNoDeviation) {
  const Between found = between({{0.10, 0.01}, {0.12, 0.02}, {0.11, 0.01}});
  EXPECT_EQ(found.deviation, 0);
  EXPECT_NEAR(found.mean, (10.0 + 6.0 + 11.0) / 250, 1e-12);
  EXPECT_GT(found.p, 0.9);
}

TEST(Between, RefusesWhatHasNoVariation) {
  EXPECT_NE(tests::error_of([] { static_cast<void>(between({{0.1, 0.01}})); }), "");
  EXPECT_NE(tests::error_of([] { static_cast<void>(between({{0.1, 0.01}, {0.1, 0}})); }), "");
  EXPECT_NE(tests::error_of([] { static_cast<void>(between({{0.1, 0.01}, {NAN, 1}})); }), "");
}

}  // namespace
}  // namespace bitrift::analyze::between_test
