#include "analyze/rates/interval.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::analyze::interval_test {
namespace {

constexpr double kExact = 1e-12;

struct Case {
  std::uint64_t k, n;
  double low, high;
};

// 81/263, 15/148, 0/20 and 1/29 are the four examples of Newcombe, Statistics in Medicine 17 (1998), table I:
// his four decimals agree. The digits beyond come from 30-digit arithmetic (mpmath), as do all literals here.
TEST(Wilson, EqualsPublishedValues) {
  const std::vector<Case> cases = {{81, 263, 0.25528851987827423, 0.36620957698280007},
                                   {15, 148, 0.06238639953073628, 0.16048724172330804},
                                   {0, 20, 0, 0.16112515805281939},
                                   {1, 29, 0.0061132142927626605, 0.17175521879320288},
                                   {29, 29, 0.88303020150025923, 1}};
  for (const Case& c : cases) {
    const Interval interval = wilson(static_cast<double>(c.k), static_cast<double>(c.n), 0.95);
    EXPECT_NEAR(interval.low, c.low, kExact) << c.k << "/" << c.n;
    EXPECT_NEAR(interval.high, c.high, kExact) << c.k << "/" << c.n;
  }
  const Interval other = wilson(3, 10, 0.99);
  EXPECT_NEAR(other.low, 0.079566316523065773, kExact);
  EXPECT_NEAR(other.high, 0.67997532079889749, kExact);
}

TEST(Wilson, EndsAreExactAtNoneAndAll) {
  EXPECT_EQ(wilson(0, 17, 0.95).low, 0);
  EXPECT_EQ(wilson(17, 17, 0.95).high, 1);
}

TEST(Wilson, NothingSeenSaysNothing) {
  EXPECT_EQ(wilson(0, 0, 0.95).low, 0);
  EXPECT_EQ(wilson(0, 0, 0.95).high, 1);
}

TEST(ClopperPearson, EqualsPublishedValues) {
  const std::vector<Case> cases = {{81, 263, 0.25273674558527116, 0.36762192260135136},
                                   {15, 148, 0.057844010083448559, 0.16165049034947901},
                                   {0, 20, 0, 0.16843347098308534},
                                   {1, 29, 0.00087264688357992199, 0.17764429548872293},
                                   {29, 29, 0.88055513093049728, 1}};
  for (const Case& c : cases) {
    const Interval interval = clopper_pearson(c.k, c.n, 0.95);
    EXPECT_NEAR(interval.low, c.low, kExact) << c.k << "/" << c.n;
    EXPECT_NEAR(interval.high, c.high, kExact) << c.k << "/" << c.n;
  }
}

TEST(Anytime, EqualsHighPrecisionValues) {
  const std::vector<Case> cases = {{81, 263, 0.21874334629796809, 0.40806007632627899},
                                   {15, 148, 0.037537760815738495, 0.2054416694697618},
                                   {0, 20, 0, 0.26067135093765753},
                                   {1, 29, 5.756397341128534e-5, 0.25959413042398903},
                                   {29, 29, 0.80205043928686495, 1}};
  for (const Case& c : cases) {
    const Interval interval = anytime(c.k, c.n, 0.95);
    EXPECT_NEAR(interval.low, c.low, kExact) << c.k << "/" << c.n;
    EXPECT_NEAR(interval.high, c.high, kExact) << c.k << "/" << c.n;
  }
  const Interval large = anytime(500, 100000, 0.99);
  EXPECT_NEAR(large.low, 0.0039814038099013433, 1e-10);
  EXPECT_NEAR(large.high, 0.0061781436247291183, 1e-10);
}

TEST(Anytime, WithoutSuccessesSolvesItsClosedForm) {
  // (1 - p)^n = alpha / (n + 1)
  EXPECT_NEAR(anytime(0, 50, 0.95).high, 1 - std::pow(0.05 / 51, 1.0 / 50), kExact);
}

struct FiniteCase {
  std::uint64_t k, n, population, low, high;
};

// Every total in 0..N was tried in exact arithmetic (mpmath) for the small populations.
TEST(AnytimeFinite, EndsAreTheExactIntegers) {
  const std::vector<FiniteCase> cases = {{0, 10, 100, 0, 39},          {3, 10, 100, 5, 71},
                                         {10, 10, 100, 61, 100},       {50, 100, 1000, 352, 648},
                                         {40, 80, 100, 42, 58},        {0, 0, 10, 0, 10},
                                         {7, 33, 64, 7, 25},           {1, 60, 64, 1, 3},
                                         {100, 300, 5000, 1245, 2128}, {300, 1000, 1048576, 262522, 370138}};
  for (const FiniteCase& c : cases) {
    const Interval interval = anytime_finite(c.k, c.n, c.population, 0.95);
    const auto size = static_cast<double>(c.population);
    EXPECT_EQ(interval.low, static_cast<double>(c.low) / size) << c.k << "/" << c.n << " of " << c.population;
    EXPECT_EQ(interval.high, static_cast<double>(c.high) / size)
        << c.k << "/" << c.n << " of " << c.population;
  }
}

TEST(AnytimeFinite, KeepsItsDigitsInATrillion) {
  const std::uint64_t population = std::uint64_t{1} << 40;
  const std::vector<FiniteCase> cases = {{0, 40, population, 0, 169786689646},
                                         {30, 100, population, 186308372902, 502747280109},
                                         {1, 100000, population, 6, 190892743},
                                         {50000, 100000, population, 542577053942, 556934573834},
                                         {33, 33, population, 902331717081, population}};
  for (const FiniteCase& c : cases) {
    const Interval interval = anytime_finite(c.k, c.n, population, 0.95);
    const auto size = static_cast<double>(population);
    EXPECT_NEAR(interval.low, static_cast<double>(c.low) / size, 1e-10);
    EXPECT_NEAR(interval.high, static_cast<double>(c.high) / size, 1e-10);
  }
}

TEST(AnytimeFinite, AllDrawnLeavesNoDoubt) {
  for (std::uint64_t k = 0; k <= 40; ++k) {
    const Interval interval = anytime_finite(k, 40, 40, 0.95);
    EXPECT_EQ(interval.low, static_cast<double>(k) / 40);
    EXPECT_EQ(interval.high, interval.low);
  }
}

TEST(AnytimeFinite, NearsTheUnboundedOneInALargePopulation) {
  const Interval finite = anytime_finite(37, 200, std::uint64_t{1} << 40, 0.95);
  const Interval unbounded = anytime(37, 200, 0.95);
  EXPECT_NEAR(finite.low, unbounded.low, 1e-8);
  EXPECT_NEAR(finite.high, unbounded.high, 1e-8);
}

// Walks a shuffled population of N with K successes and looks after every draw; a path fails when any look
// misses K/N.
double miss_rate(std::uint64_t population, std::uint64_t successes, std::uint64_t paths, double confidence) {
  std::vector<std::vector<Interval>> known(population + 1);
  for (std::uint64_t n = 0; n <= population; ++n) {
    for (std::uint64_t k = 0; k <= n; ++k) {
      const bool possible = k <= successes && n - k <= population - successes;
      known[n].push_back(possible ? anytime_finite(k, n, population, confidence) : Interval{});
    }
  }
  const double truth = static_cast<double>(successes) / static_cast<double>(population);
  std::uint64_t missed = 0;
  for (std::uint64_t path = 0; path < paths; ++path) {
    std::uint64_t k = 0;
    bool miss = false;
    for (std::uint64_t n = 0; n < population; ++n) {
      if (random_below(derive_key(1, "coverage"), path, n, population - n) < successes - k) ++k;
      const Interval& interval = known[n + 1][k];
      miss = miss || truth < interval.low || truth > interval.high;
    }
    if (miss) ++missed;
  }
  return static_cast<double>(missed) / static_cast<double>(paths);
}

TEST(AnytimeFinite, CoversAtEveryLookAtOnce) {
  for (const auto& [population, successes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {50, 1}, {60, 30}, {200, 0}, {200, 20}, {200, 110}}) {
    EXPECT_LE(miss_rate(population, successes, 2000, 0.95), 0.05) << successes << " of " << population;
  }
}

// The test above would pass for intervals that are always [0, 1]: at half the confidence, misses must show.
TEST(AnytimeFinite, IsNotVacuous) {
  EXPECT_GT(miss_rate(200, 20, 2000, 0.5), 0.05);
  EXPECT_LE(miss_rate(200, 20, 2000, 0.5), 0.5);
  const Interval interval = anytime_finite(20, 200, 100000, 0.95);
  EXPECT_LT(interval.high - interval.low, 0.2);
}

TEST(Anytime, CoversAtEveryLookAtOnce) {
  for (const double truth : {0.02, 0.3, 0.5}) {
    std::uint64_t missed = 0;
    for (std::uint64_t path = 0; path < 500; ++path) {
      std::uint64_t k = 0;
      bool miss = false;
      for (std::uint64_t n = 1; n <= 300; ++n) {
        if (random_unit(derive_key(2, "coverage"), path, n) < truth) ++k;
        const Interval interval = anytime(k, n, 0.95);
        miss = miss || truth < interval.low || truth > interval.high;
      }
      if (miss) ++missed;
    }
    EXPECT_LE(missed, 25U) << truth;
  }
}

TEST(Intervals, ContainTheEstimateAndShrinkWithConfidence) {
  for (std::uint64_t n = 1; n <= 40; ++n) {
    for (std::uint64_t k = 0; k <= n; ++k) {
      const double p = static_cast<double>(k) / static_cast<double>(n);
      for (const Interval& interval : {wilson(static_cast<double>(k), static_cast<double>(n), 0.9),
                                       clopper_pearson(k, n, 0.9), anytime(k, n, 0.9)}) {
        EXPECT_LE(interval.low, p);
        EXPECT_GE(interval.high, p);
        EXPECT_GE(interval.low, 0);
        EXPECT_LE(interval.high, 1);
      }
      EXPECT_LE(anytime(k, n, 0.99).low, anytime(k, n, 0.9).low);
      EXPECT_GE(anytime(k, n, 0.99).high, anytime(k, n, 0.9).high);
      // Looking at every step costs width against looking once.
      EXPECT_GE(anytime(k, n, 0.9).high, clopper_pearson(k, n, 0.9).high - kExact);
    }
  }
}

template <typename Call>
void expect_bad_input(Call call) {
  try {
    call();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
  }
}

TEST(Intervals, RefuseWhatMakesNoSense) {
  for (const double confidence : {0.0, 1.0, -1.0, 95.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_bad_input([&] { (void)wilson(1, 2, confidence); });
    expect_bad_input([&] { (void)clopper_pearson(1, 2, confidence); });
    expect_bad_input([&] { (void)anytime(1, 2, confidence); });
    expect_bad_input([&] { (void)anytime_finite(1, 2, 10, confidence); });
  }
  expect_bad_input([] { (void)wilson(3, 2, 0.95); });
  expect_bad_input([] { (void)wilson(-1, 2, 0.95); });
  expect_bad_input([] { (void)wilson(std::numeric_limits<double>::quiet_NaN(), 2, 0.95); });
  expect_bad_input([] { (void)clopper_pearson(3, 2, 0.95); });
  expect_bad_input([] { (void)anytime(3, 2, 0.95); });
  expect_bad_input([] { (void)anytime_finite(3, 2, 10, 0.95); });
  expect_bad_input([] { (void)anytime_finite(1, 11, 10, 0.95); });
  expect_bad_input([] { (void)anytime_finite(0, 0, 0, 0.95); });
}

// Student's table: t(0.975, 4) = 2.776, t(0.95, 10) = 1.812.
TEST(IntervalTest, StudentsTHasTheQuantilesOfTheTable) {
  const Interval five = student_t(0.5, 0.1, 4, 0.95);
  EXPECT_NEAR(five.low, 0.5 - 0.2776, 1e-4);
  EXPECT_NEAR(five.high, 0.5 + 0.2776, 1e-4);
  EXPECT_NEAR(student_t(0.5, 0.1, 10, 0.9).high, 0.5 + 0.1812, 1e-4);
  EXPECT_EQ(student_t(0.5, 0.3, 4, 0.95).low, 0);
  EXPECT_EQ(student_t(0.5, 0.3, 4, 0.95).high, 1);
  EXPECT_EQ(student_t(0.5, 0.1, 0, 0.95).high, 1);
  EXPECT_NEAR(student_t_margin(2, 10, 0.9), 2 * 1.812, 1e-3);
  EXPECT_TRUE(std::isinf(student_t_margin(2, 0, 0.9)));
}

}  // namespace
}  // namespace bitrift::analyze::interval_test
