#include "analyze/rates/paired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::analyze::paired_test {
namespace {

PickedRound one_round(const std::vector<StratumPairs>& strata) {
  PickedRound round;
  round.fixed = true;
  round.first.assign(strata.size(), 0);
  for (const StratumPairs& stratum : strata) round.share.push_back(stratum.first.size());
  round.picks = picks_shuffled(7, 0, round.share);
  return round;
}

PairedDifference difference_of(const std::vector<StratumPairs>& strata, double confidence = 0.95) {
  return paired_difference({one_round(strata)}, strata, confidence);
}

// Pairs whose outcomes are independent of each other, or where every hit of the first arm is one of the
// second too.
StratumPairs drawn(std::uint64_t seed, std::uint64_t bits, std::size_t draws, double first, double second,
                   bool nested) {
  StratumPairs pairs;
  pairs.bits = bits;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const double one = random_unit(seed, draw, 0);
    const double other = nested ? one : random_unit(seed, draw, 1);
    pairs.first.push_back(one < first ? 1 : 0);
    pairs.second.push_back(other < second ? 1 : 0);
  }
  return pairs;
}

// Fagerland, Lydersen and Laake 2013, table 1: airway hyper-responsiveness before and after transplantation.
TEST(ExactMcNemar, GivesThePublishedValue) {
  EXPECT_NEAR(exact_mcnemar(1, 7), 0.0703, 0.00005);
  EXPECT_EQ(exact_mcnemar(1, 7), exact_mcnemar(7, 1));
  EXPECT_EQ(exact_mcnemar(0, 0), 1);
  EXPECT_EQ(exact_mcnemar(4, 4), 1);
  EXPECT_DOUBLE_EQ(exact_mcnemar(0, 5), 2.0 / 32);
}

// scipy.stats.binom.sf(k - 1, n, 0.5)
TEST(ExactMcNemarGreater, CountsOnlyOneDirection) {
  EXPECT_DOUBLE_EQ(exact_mcnemar_greater(1, 7), 0.03515625);
  EXPECT_DOUBLE_EQ(exact_mcnemar_greater(3, 12), 0.017578125);
  EXPECT_EQ(exact_mcnemar_greater(7, 0), 1);
  EXPECT_EQ(exact_mcnemar_greater(0, 0), 1);
  EXPECT_DOUBLE_EQ(exact_mcnemar_greater(12, 3), 0.996307373046875);
}

TEST(SmallestError, IsFoundBetween1AndTheLeast) {
  EXPECT_NEAR(smallest_error([](double error) { return error >= 0.03; }), 0.03, 1e-6);
  EXPECT_EQ(smallest_error([](double) { return true; }), 0);
  EXPECT_EQ(smallest_error([](double) { return false; }), 1);
}

// p.adjust(c(0.04, 0.01, 0.03, 0.02), "holm") of R 4.3.
TEST(Holm, AdjustsAsRDoes) {
  const auto adjusted = holm({0.04, 0.01, 0.03, 0.02});
  const std::vector<double> expected = {0.06, 0.04, 0.06, 0.06};
  ASSERT_EQ(adjusted.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(adjusted[i], expected[i]) << i;
  EXPECT_TRUE(holm({}).empty());
  EXPECT_EQ(holm({0.7, 0.9}), (std::vector<double>{1, 1}));
}

TEST(PairedDifference, OfAllFaultsIsTheDifferenceItself) {
  const StratumPairs all = {8, {1, 1, 0, 0, 0, 0, 0, 0}, {0, 1, 1, 1, 0, 0, 0, 0}};
  const PairedDifference found = difference_of({all});
  EXPECT_EQ(found.counts.both, 1U);
  EXPECT_EQ(found.counts.first_only, 1U);
  EXPECT_EQ(found.counts.second_only, 2U);
  EXPECT_EQ(found.counts.neither, 4U);
  EXPECT_NEAR(found.interval.low, 0.125, 1e-12);
  EXPECT_NEAR(found.interval.high, 0.125, 1e-12);
  EXPECT_EQ(found.p, 0);
}

TEST(PairedDifference, ChangesItsSignWithTheArms) {
  StratumPairs pairs = drawn(3, 4000, 400, 0.1, 0.25, false);
  const PairedDifference found = difference_of({pairs});
  std::swap(pairs.first, pairs.second);
  const PairedDifference turned = difference_of({pairs});
  EXPECT_NEAR(found.interval.low, -turned.interval.high, 1e-6);
  EXPECT_NEAR(found.interval.high, -turned.interval.low, 1e-6);
  EXPECT_NEAR(found.p, turned.p, 0.01 * found.p);
  EXPECT_LT(found.interval.low, 0.15);
  EXPECT_GT(found.interval.high, 0.15);
}

TEST(PairedDifference, WeighsStrataByTheirBits) {
  const StratumPairs small = drawn(1, 100, 100, 0, 1, false);
  const StratumPairs large = drawn(2, 9900, 400, 0.2, 0.2, true);
  const PairedDifference found = difference_of({small, large});
  EXPECT_LE(found.interval.low, 0.01);
  EXPECT_GE(found.interval.high, 0.01);
  EXPECT_LT(found.interval.high, 0.05);
}

TEST(PairedDifference, PIsWhereTheIntervalBeginsToHoldZero) {
  const std::vector<StratumPairs> strata = {drawn(5, 5000, 300, 0.05, 0.2, false)};
  const PairedDifference found = difference_of(strata);
  ASSERT_GT(found.p, 0);
  ASSERT_LT(found.p, 1);
  EXPECT_GT(difference_of(strata, 1 - 1.01 * found.p).interval.low, 0);
  EXPECT_LE(difference_of(strata, 1 - 0.99 * found.p).interval.low, 0);
}

TEST(PairedDifference, WithoutADifferenceRarelyLeavesOutZeroAtAnyLook) {
  int wrong = 0;
  constexpr int campaigns = 60;
  for (std::uint64_t campaign = 0; campaign < campaigns; ++campaign) {
    const StratumPairs all = drawn(100 + campaign, 100000, 600, 0.1, 0.1, false);
    for (std::size_t looks = 150; looks <= 600; looks += 150) {
      const auto end = static_cast<std::ptrdiff_t>(looks);
      const StratumPairs seen = {all.bits,
                                 {all.first.begin(), all.first.begin() + end},
                                 {all.second.begin(), all.second.begin() + end}};
      const Interval interval = paired_difference({one_round({all})}, {seen}, 0.95).interval;
      if (interval.low <= 0 && interval.high >= 0) continue;
      ++wrong;
      break;
    }
  }
  EXPECT_LE(wrong, 8);  // 3 are allowed on average; more than 8 of 60 have a chance of 0.4 %
}

TEST(PairedDifference, OfFivePointsIsFoundInAThousandPairs) {
  int found = 0;
  constexpr int campaigns = 20;
  for (std::uint64_t campaign = 0; campaign < campaigns; ++campaign) {
    const StratumPairs all = drawn(900 + campaign, 1000000, 1000, 0.05, 0.10, true);
    found += difference_of({all}).interval.low > 0 ? 1 : 0;
  }
  EXPECT_GE(found, 18);
}

TEST(PairedDifference, RefusesStrataWhoseArmsHaveOtherNumbersOfDraws) {
  const StratumPairs torn = {10, {1, 0}, {1}};
  EXPECT_THAT([&] { static_cast<void>(paired_difference({}, {torn}, 0.95)); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("both arms")));
}

}  // namespace
}  // namespace bitrift::analyze::paired_test
