#include "analyze/verdict/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "core/error.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::calibration_test {
namespace {

using record::Metric;
using ::testing::ElementsAre;
using testing::evaluation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<Metric> kAccuracy = {Metric::test_accuracy};
const std::vector<Metric> kBoth = {Metric::test_accuracy, Metric::test_capped_loss};

Trajectory run_with(double accuracy, double loss = 0.2) { return {evaluation(1, 0.1, 0.97, loss, accuracy)}; }

// Right answers of 1,000: runs i = 0 ... n-1 have 950 - i of them.
std::vector<Trajectory> ladder(std::size_t n) {
  std::vector<Trajectory> runs;
  for (std::size_t i = 0; i < n; ++i) {
    const auto away = static_cast<double>(i);
    runs.push_back(run_with((950 - away) / 1000, 0.2 + 0.001 * away));
  }
  return runs;
}

bool outside(const Calibration& calibration, const Trajectory& run, const Trajectory& golden) {
  return !calibration.rank(run, golden).outside.back().empty();
}

TEST(Calibration, TheRankAmongTheCleanRunsIsThePValue) {
  const Calibration calibration(ladder(20), kAccuracy, 0.05, 1000);
  const Trajectory golden = run_with(0.950);
  // 949 right: 18 of 20 clean runs are worse, one is equal, one better.
  EXPECT_DOUBLE_EQ(calibration.rank(run_with(0.949), golden).p_value, 20.0 / 21);
  EXPECT_DOUBLE_EQ(calibration.rank(run_with(0.931), golden).p_value, 2.0 / 21) << "a tie counts for the run";
  EXPECT_DOUBLE_EQ(calibration.rank(run_with(0.930), golden).p_value, 1.0 / 21);
  EXPECT_FALSE(outside(calibration, run_with(0.931), golden));
  EXPECT_TRUE(outside(calibration, run_with(0.930), golden));
}

TEST(Calibration, WorseThanHealthyTrainingIsNotEnough) {
  const Calibration calibration(ladder(20), kAccuracy, 0.05, 1000);
  // The golden run is itself the worst of all: what is no worse than it is not harm.
  const Trajectory golden = run_with(0.900);
  for (const double accuracy : {1.0, 0.95, 0.92, 0.9}) {
    EXPECT_FALSE(outside(calibration, run_with(accuracy), golden)) << accuracy;
  }
  EXPECT_FALSE(outside(calibration, run_with(0.899), golden)) << "one target is not harm";
  EXPECT_TRUE(outside(calibration, run_with(0.880), golden));
}

TEST(Calibration, WorseThanTheGoldenRunIsNotEnough) {
  const Calibration calibration(ladder(20), kAccuracy, 0.05, 1000);
  const Trajectory lucky = run_with(0.999);
  EXPECT_FALSE(outside(calibration, run_with(0.940), lucky));
  EXPECT_TRUE(outside(calibration, run_with(0.930), lucky));
}

TEST(Calibration, HarmIsMeasuredFromTheWorseOfMedianAndGoldenRun) {
  const Calibration calibration(ladder(20), kAccuracy, 0.05, 1000);
  // With a run at 0.880 the median of the 21 is 0.940 and the median deviation 5 targets; the worst clean run
  // scores (0.940 - 0.931) / u, so the limit against a golden run at 0.900 is 9 targets below it.
  const Trajectory golden = run_with(0.900);
  EXPECT_FALSE(outside(calibration, run_with(0.892), golden));
  EXPECT_TRUE(outside(calibration, run_with(0.890), golden));
}

TEST(Calibration, MetricsThatOnlyImproveAreNoHarm) {
  const Calibration calibration(ladder(99), kBoth, 0.01, 1000);
  const Ranking ranking = calibration.rank(run_with(1, 0.0001), run_with(0.95));
  EXPECT_THAT(ranking.outside, ElementsAre(IsEmpty()));
  EXPECT_EQ(ranking.p_value, 1);
}

TEST(Calibration, TheMetricThatIsOutsideIsNamed) {
  const Calibration calibration(ladder(99), kBoth, 0.01, 1000);
  const Trajectory golden = run_with(0.95);
  EXPECT_THAT(calibration.rank(run_with(0.5), golden).outside,
              ElementsAre(ElementsAre(Metric::test_accuracy)));
  EXPECT_THAT(calibration.rank(run_with(0.95, 2), golden).outside,
              ElementsAre(ElementsAre(Metric::test_capped_loss)));
  EXPECT_THAT(calibration.rank(run_with(0.5, 2), golden).outside, ElementsAre(kBoth));
}

TEST(Calibration, ManyRunsMakeTheLimitAnOrderStatistic) {
  const Calibration calibration(ladder(800), kAccuracy, 0.01, 1000);
  EXPECT_EQ(calibration.rank_limit(), 8U);
  EXPECT_DOUBLE_EQ(calibration.level(), 8.0 / 801);
  const Trajectory golden = run_with(0.95);
  // Clean runs reach down to 151 right answers; seven may be worse.
  EXPECT_FALSE(outside(calibration, run_with(0.159), golden));
  EXPECT_TRUE(outside(calibration, run_with(0.157), golden));
}

TEST(Calibration, TheStatedLevelFollowsFromTheRuns) {
  const auto level = [](std::size_t n) { return Calibration(ladder(n), kAccuracy, 0.01, 1000); };
  EXPECT_DOUBLE_EQ(level(20).level(), 1.0 / 21);
  EXPECT_DOUBLE_EQ(level(99).level(), 0.01);
  // 1 - 0.05^(1/n): the largest of n scores.
  EXPECT_NEAR(level(20).level_with(0.95), 0.139108, 1e-6);
  EXPECT_NEAR(level(99).level_with(0.95), 0.029806, 1e-6);
  // P(Binomial(99, 0.01) >= 4) = 0.0183 and >= 3 = 0.0793 (scipy.stats.binom.sf).
  EXPECT_EQ(level(99).lenient_rank_limit(0.95), 4U);
  EXPECT_EQ(level(99).lenient_rank_limit(0.80), 3U);
}

// Whatever the distribution: skewed, heavy-tailed, discrete, two metrics of different scale.
TEST(Calibration, CleanRunsAreCalledAtTheStatedLevel) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  const auto draw = [&](int kind) {
    const double common = normal(engine);
    const double loss = 0.2 * std::exp(0.3 * common + (kind == 0 ? 1.0 : 0.1) * std::pow(normal(engine), 3));
    const double wrong = 40 + 3 * common + (kind == 1 ? 2 : 8) * std::abs(normal(engine));
    return run_with((1000 - std::round(wrong)) / 1000, loss);
  };
  for (int kind = 0; kind < 2; ++kind) {
    int called = 0;
    constexpr int campaigns = 3000;
    for (int campaign = 0; campaign < campaigns; ++campaign) {
      std::vector<Trajectory> clean;
      for (int i = 0; i < 24; ++i) clean.push_back(draw(kind));
      const Calibration calibration(clean, kBoth, 0.05, 1000);
      // A golden run better than all: then the rank alone decides.
      called += outside(calibration, draw(kind), run_with(1, 1e-6)) ? 1 : 0;
    }
    // Level 1/25 = 120 of 3,000 expected; 0.001 of a binomial exceeds 154. Ties make it fewer.
    EXPECT_LE(called, 154) << kind;
    EXPECT_GE(called, 80) << kind;
  }
}

// 21 runs have 950 ... 930 right answers: median 940, median distance 5, unit 1.4826 x 5; the worst is 10
// away.
TEST(Calibration, TheLimitInAbsoluteUnitsIsTheWorstCleanRunAboveTheMedian) {
  const Calibration calibration(ladder(21), kAccuracy, 0.01, 1000);
  EXPECT_NEAR(calibration.units().at(0), 1.4826 * 0.005, 1e-12);
  EXPECT_NEAR(calibration.limit_rises().at(0), 0.010, 1e-12);
  // For r = 2, the second worst.
  EXPECT_NEAR(Calibration(ladder(21), kAccuracy, 0.1, 1000).limit_rises().at(0), 0.009, 1e-12);
}

TEST(Calibration, OnlyManyRunsHaveALimitAboveTheTrueOne) {
  const auto strict = [](std::size_t runs) {
    return Calibration(ladder(runs), kAccuracy, 0.01, 1000).strict_rank_limit(0.95);
  };
  EXPECT_EQ(strict(99), std::nullopt);  // 0.99^99 is 37 %
  EXPECT_EQ(strict(499), 1U);           // 0.7 %, below a half of 5 %
  EXPECT_EQ(strict(899), 4U);           // P(Binomial(899, 0.01) < 4) is 2.1 %, P(... < 5) 5.5 %
}

TEST(Calibration, EarlierEvaluationsAreRankedTogetherAndApartFromTheHorizon) {
  std::vector<Trajectory> clean;
  for (int i = 0; i < 20; ++i) {
    Trajectory run;
    for (int e = 1; e <= 3; ++e)
      run.push_back(evaluation(e, 0.1, 0.97, 0.2, (950.0 - i * (e == 1 ? 10 : 1)) / 1000));
    clean.push_back(run);
  }
  const Calibration calibration(clean, kAccuracy, 0.05, 1000);
  Trajectory golden = clean.front();
  Trajectory run = golden;
  run[0].test_accuracy = 0.8;   // clean runs spread by 190 targets there
  run[1].test_accuracy = 0.85;  // and by 19 here
  const Ranking ranking = calibration.rank(run, golden);
  EXPECT_THAT(ranking.outside, ElementsAre(IsEmpty(), kAccuracy, IsEmpty()));
}

std::string refusal(const std::vector<Trajectory>& clean, const std::vector<Metric>& metrics,
                    std::optional<std::int64_t> targets) {
  try {
    const Calibration calibration(clean, metrics, 0.01, targets);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(Calibration, RunsThatSayNothingAreRefusedWithTheCure) {
  const std::vector<Trajectory> same(30, run_with(0.95));
  EXPECT_THAT(refusal(same, kAccuracy, 1000), HasSubstr("larger test set"));
  EXPECT_THAT(refusal(same, kBoth, 1000), HasSubstr("test_capped_loss is the same in all 30 clean runs"));
  EXPECT_THAT(refusal({run_with(0.9)}, kAccuracy, 1000), HasSubstr("raise controls.envelope"));
  EXPECT_THAT(refusal({run_with(0.9), run_with(std::nan(""))}, kAccuracy, 1000), HasSubstr("not finite"));
  std::vector<Trajectory> without = ladder(30);
  for (Trajectory& run : without) run[0].test_capped_loss.reset();
  EXPECT_THAT(refusal(without, kBoth, 1000), HasSubstr("have no test_capped_loss"));
  without[3][0].test_capped_loss = 1;
  EXPECT_THAT(refusal(without, kBoth, 1000), HasSubstr("in 1 of 30"));
}

TEST(Calibration, AConstantAccuracyHasAUnitOnlyWhereTargetsAreCounted) {
  std::vector<Trajectory> clean = ladder(30);
  for (Trajectory& run : clean) run[0].test_accuracy = 1;
  EXPECT_THAT(refusal(clean, kBoth, std::nullopt), HasSubstr("test_accuracy is the same in all 30"));
  const Calibration calibration(clean, kBoth, 0.01, 1000);
  // The losses decide what is far: 29 of their steps, scaled by 1.4826 * 7.5 or so, are about 1.3 units.
  const Trajectory golden = run_with(1);
  EXPECT_FALSE(outside(calibration, run_with(0.999), golden));
  EXPECT_TRUE(outside(calibration, run_with(0.990), golden));
}

TEST(Calibration, LossesOfZeroAreTheSmallestNumber) {
  EXPECT_EQ(badness(Metric::test_loss, 0), std::log(std::numeric_limits<double>::min()));
  EXPECT_EQ(badness(Metric::test_loss, -1), badness(Metric::test_loss, 0));
  EXPECT_EQ(badness(Metric::test_accuracy, 0.25), -0.25);
}

}  // namespace
}  // namespace bitrift::analyze::calibration_test
