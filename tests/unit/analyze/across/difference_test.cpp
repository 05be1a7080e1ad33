#include "analyze/across/difference.h"

#include <gmock/gmock.h>

#include "analyze/rates/total_interval.h"
#include "core/error.h"
#include "unit/analyze/samples.h"

namespace bitrift::analyze::difference_test {
namespace {

using record::OutcomeClass;
using testing::draw_outcomes;
using testing::Hits;
using testing::sample_with;

RateDifference sdc(const Sample& first, const Sample& second, const std::vector<std::string>& strata = {}) {
  return {{&first, "serial"}, {&second, "serial"}, OutcomeClass::sdc, strata};
}

TEST(RateDifference, PairsCampaignsWithTheSameFaults) {
  const Sample first = sample_with({{1000, 40, 4}, {9000, 40, 8}});
  const Sample second = sample_with({{1000, 40, 6}, {9000, 40, 20}});
  const RateDifference difference = sdc(first, second);
  EXPECT_EQ(difference.kind(), ComparisonKind::paired);
  EXPECT_EQ(difference.counts().both, 12U);
  EXPECT_EQ(difference.counts().second_only, 14U);
  EXPECT_EQ(difference.counts().first_only, 0U);
  EXPECT_DOUBLE_EQ(difference.first_rate(), 0.1 * 0.1 + 0.9 * 0.2);
  EXPECT_DOUBLE_EQ(difference.second_rate(), 0.1 * 0.15 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(difference.exact_p_above().value(), exact_mcnemar_greater(0, 14));
  EXPECT_DOUBLE_EQ(difference.exact_p().value(), exact_mcnemar(0, 14));
  const Interval interval = difference.interval(0.95);
  EXPECT_GT(interval.low, 0);
  EXPECT_LT(difference.p(), 0.05);
  EXPECT_LE(difference.p_above(0), difference.p_above(0.1));
  EXPECT_EQ(difference.p_above(0.9), 1);
}

TEST(RateDifference, OfPairsUsesTheDrawsThatBothHave) {
  const Sample first = sample_with({{1000, 40, 0}, {9000, 40, 0}});
  const Sample second = sample_with({{1000, 60, 60}, {9000, 60, 60}});
  const RateDifference difference = sdc(first, second);
  EXPECT_EQ(difference.second_trials(), 80U);
  EXPECT_EQ(difference.counts().pairs(), 80U);
}

TEST(RateDifference, OfOtherFaultsInTheSamePopulationIsUnpaired) {
  const Sample first = sample_with({{1000, 40, 4}, {9000, 40, 8}}, 1);
  const Sample second = sample_with({{1000, 40, 6}, {9000, 40, 20}}, 2);
  const RateDifference difference = sdc(first, second);
  EXPECT_EQ(difference.kind(), ComparisonKind::unpaired);
  EXPECT_DOUBLE_EQ(difference.exact_p().value(),
                   stratified_fisher({{4, 40, 6, 40}, {8, 40, 20, 40}}).two_sided);
}

// Large faults always do harm, and the second sample has more of them by chance.
TEST(RateDifference, OfOtherFaultsComparesFaultsOfTheSameSize) {
  Sample first = sample_with({{1000, 40, 4}}, 1);
  Sample second = sample_with({{1000, 40, 14}}, 2);
  EXPECT_DOUBLE_EQ(sdc(first, second).exact_p().value(), stratified_fisher({{4, 40, 14, 40}}).two_sided);
  const auto sizes = [](Sample& sample) -> std::vector<double>& {
    return sample.cells.at({"serial", "weight.sign"}).sizes;
  };
  const auto large = [&](Sample& sample, std::size_t count) {
    sizes(sample).assign(40, 0.5);
    std::fill_n(sizes(sample).begin(), count, 8);
  };
  large(first, 4);
  large(second, 14);
  EXPECT_DOUBLE_EQ(sdc(first, second).exact_p().value(), 1);
  large(second, 10);
  EXPECT_DOUBLE_EQ(sdc(first, second).exact_p().value(),
                   stratified_fisher({{0, 36, 4, 30}, {4, 4, 10, 10}}).two_sided);
  // Without a size in the second campaign alone: no counterpart.
  sizes(second).back() = no_size;
  EXPECT_DOUBLE_EQ(sdc(first, second).exact_p().value(),
                   stratified_fisher({{0, 36, 4, 29}, {4, 4, 10, 10}}).two_sided);
}

// 80 draws are four groups by their ranks; two faults of the same size are never apart.
TEST(RateDifference, OfOtherFaultsHasGroupsOfTwentyDraws) {
  Sample first = sample_with({{1000, 40, 4}}, 1);
  Sample second = sample_with({{1000, 40, 14}}, 2);
  for (std::size_t i = 0; i < 40; ++i) {
    first.cells.at({"serial", "weight.sign"}).sizes[i] = 1 + 2 * static_cast<double>(i);
    second.cells.at({"serial", "weight.sign"}).sizes[i] = 2 + 2 * static_cast<double>(i);
  }
  const auto table = [&] { return sdc(first, second).table(); };
  ASSERT_EQ(table().size(), 4U);
  EXPECT_EQ(table()[0].first_hits, 4U);
  EXPECT_EQ(table()[1].second_hits, 4U);
  EXPECT_EQ(table()[3].second_trials, 10U);
  // The ranks 19, 20 and 21 have the mean 20: all are in the first group.
  first.cells.at({"serial", "weight.sign"}).sizes[10] = 20;
  first.cells.at({"serial", "weight.sign"}).sizes[9] = 20;
  EXPECT_EQ(table()[0].first_trials, 11U);
}

TEST(RateDifference, OfOtherPopulationsIsNarrowerThanTheIntervalsOfBothTogether) {
  const Sample first = sample_with({{100'000, 400, 40}}, 1);
  const Sample second = sample_with({{50'000, 400, 100}}, 2);
  const RateDifference difference = sdc(first, second);
  EXPECT_EQ(difference.kind(), ComparisonKind::unrelated);
  const Interval one = anytime_finite(40, 400, 100'000, 0.975);
  const Interval other = anytime_finite(100, 400, 50'000, 0.975);
  const Interval joint = difference.interval(0.95);
  EXPECT_GT(joint.low, other.low - one.high);
  EXPECT_LT(joint.high, other.high - one.low);
  EXPECT_LT(joint.low, 0.15);
  EXPECT_GT(joint.high, 0.15);
}

TEST(RateDifference, OfExhaustedPopulationsOfOtherSizesIsTheDifferenceItself) {
  const Sample first = sample_with({{40, 40, 4}}, 1);
  const Sample second = sample_with({{50, 50, 20}}, 2);
  const Interval interval = sdc(first, second).interval(0.95);
  EXPECT_NEAR(interval.low, 0.3, 1e-9);
  EXPECT_NEAR(interval.high, 0.3, 1e-9);
}

TEST(RateDifference, WeighsEachCampaignByItsOwnBits) {
  const Sample first = sample_with({{1000, 10, 10}, {9000, 10, 0}}, 1);
  const Sample second = sample_with({{9000, 10, 10}, {1000, 10, 0}}, 2);
  const RateDifference difference = sdc(first, second);
  EXPECT_DOUBLE_EQ(difference.first_rate(), 0.1);
  EXPECT_DOUBLE_EQ(difference.second_rate(), 0.9);
}

TEST(RateDifference, OfAllFaultsIsTheDifferenceItself) {
  const Sample first = sample_with({{40, 40, 4}, {40, 40, 8}});
  const Sample second = sample_with({{40, 40, 6}, {40, 40, 20}});
  const Interval interval = sdc(first, second).interval(0.95);
  EXPECT_NEAR(interval.low, 14.0 / 80, 1e-12);
  EXPECT_NEAR(interval.high, 14.0 / 80, 1e-12);
}

TEST(RateDifference, OverSomeStrataLeavesOutTheOthers) {
  const Sample first = sample_with({{1000, 40, 4}, {9000, 40, 8}});
  const Sample second = sample_with({{1000, 40, 6}, {9000, 40, 20}});
  const RateDifference difference = sdc(first, second, {"weight.sign"});
  EXPECT_EQ(difference.first_trials(), 40U);
  EXPECT_DOUBLE_EQ(difference.difference(), 0.05);
}

TEST(RateDifference, OfAStratumThatOneLacksAllowsItAnyRate) {
  const Sample first = sample_with({{1000, 40, 4}, {9000, 40, 8}}, 1);
  Sample second = sample_with({{1000, 40, 4}, {9000, 40, 8}}, 2);
  second.cells.at({"serial", "weight.exponent"}).outcomes.clear();
  const RateDifference difference = sdc(first, second);
  EXPECT_DOUBLE_EQ(difference.share_seen(), 0.1);
  EXPECT_LT(difference.interval(0.95).low, -0.5);
  EXPECT_GT(difference.interval(0.95).high, 0.5);
  second.cells.at({"serial", "weight.sign"}).outcomes.clear();
  EXPECT_THROW((void)sdc(first, second), Error);
}

TEST(RateDifference, MakesNoTestForOneLookWhereDrawsDependedOnOutcomes) {
  const Sample first = sample_with({{1000, 40, 4}}, 1);
  Sample second = sample_with({{1000, 40, 4}}, 2);
  second.spec.sampling = record::Sampling{};
  const RateDifference difference = sdc(first, second);
  EXPECT_EQ(difference.kind(), ComparisonKind::unrelated);
  EXPECT_FALSE(difference.exact_p().has_value());
  EXPECT_FALSE(difference.exact_p_above().has_value());
}

// How many of 400 pairs of campaigns with equal rates have an interval without 0 at any of four looks.
int false_alarms(std::uint64_t second_scale, double confidence) {
  int alarms = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    bool alarm = false;
    for (std::uint64_t look = 1; look <= 4; ++look) {
      Sample first = sample_with({{1000, 25 * look, 0}, {8000, 25 * look, 0}}, 1);
      Sample second =
          sample_with({{1000 * second_scale, 25 * look, 0}, {8000 * second_scale, 25 * look, 0}}, 2);
      draw_outcomes(first, derive_key(seed, "first"), 0.2);
      draw_outcomes(second, derive_key(seed, "second"), 0.2);
      const Interval interval = sdc(first, second).interval(confidence);
      alarm = alarm || interval.low > 0 || interval.high < 0;
    }
    alarms += alarm ? 1 : 0;
  }
  return alarms;
}

TEST(RateDifference, RaisesFewFalseAlarmsAtAnyLook) {
  EXPECT_LE(false_alarms(1, 0.95), 20);
  EXPECT_LE(false_alarms(2, 0.95), 20);
  EXPECT_GT(false_alarms(1, 0.3), 20);  // or the intervals would be far too wide
}

}  // namespace
}  // namespace bitrift::analyze::difference_test
