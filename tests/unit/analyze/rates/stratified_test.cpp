#include "analyze/rates/stratified.h"

#include <gtest/gtest.h>

#include "tests_support.h"

namespace bitrift::analyze::stratified_test {
namespace {

TEST(StratifiedRate, WeighsStrataByTheirBitsAndNotByTheirTrials) {
  const StratifiedRate rate = stratified_rate({{300, 5, 10}, {100, 90, 100}}, 0.95);
  EXPECT_DOUBLE_EQ(rate.estimate, 0.75 * 0.5 + 0.25 * 0.9);
  EXPECT_LT(rate.wilson.low, rate.estimate);
  EXPECT_GT(rate.wilson.high, rate.estimate);
}

TEST(StratifiedRate, OfOneStratumIsWilsonsInterval) {
  const StratifiedRate rate = stratified_rate({{300, 5, 10}}, 0.9);
  const Interval plain = wilson(5, 10, 0.9);
  EXPECT_EQ(rate.wilson.low, plain.low);
  EXPECT_EQ(rate.wilson.high, plain.high);
}

TEST(StratifiedRate, EqualStrataWithoutEventsAreWorthTheirSum) {
  const StratifiedRate rate = stratified_rate({{64, 0, 50}, {64, 0, 50}}, 0.95);
  EXPECT_NEAR(rate.wilson.high, wilson(0, 100, 0.95).high, 1e-12);
}

TEST(StratifiedRate, ClopperPearsonOfSeveralStrataIsThatOfTheirEffectiveNumber) {
  EXPECT_NEAR(stratified_rate({{64, 0, 50}, {64, 0, 50}}, 0.95).clopper_pearson.high,
              clopper_pearson(0, 100, 0.95).high, 1e-12);
  const StratifiedRate one = stratified_rate({{300, 5, 10}}, 0.9);
  EXPECT_EQ(one.clopper_pearson.low, clopper_pearson(5, 10, 0.9).low);
  EXPECT_EQ(one.clopper_pearson.high, clopper_pearson(5, 10, 0.9).high);
}

TEST(StratifiedRate, IntervalsAreLaidAroundTheEstimateThatIsGiven) {
  const StratifiedRate rate = stratified_rate({{300, 5, 10}, {100, 90, 100}}, 0.95, 0.2);
  EXPECT_EQ(rate.estimate, 0.2);
  EXPECT_LT(rate.wilson.low, 0.2);
  EXPECT_GT(rate.wilson.high, 0.2);
  EXPECT_LT(rate.wilson.high, stratified_rate({{300, 5, 10}, {100, 90, 100}}, 0.95).wilson.high);
}

TEST(StratifiedRate, RefusesWhatHasNoRate) {
  EXPECT_NE(tests::error_of([] { static_cast<void>(stratified_rate({}, 0.95)); }), "");
  EXPECT_NE(tests::error_of([] { static_cast<void>(stratified_rate({{9, 0, 0}}, 0.95)); }), "");
}

}  // namespace
}  // namespace bitrift::analyze::stratified_test
