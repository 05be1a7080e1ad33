#include "analyze/harm.h"

#include <gtest/gtest.h>

#include "analyze/rates/total_interval.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::harm_test {
namespace {

using record::Reason;

constexpr std::uint64_t kBits = 1'000'000;

/// One stratum of `trials` trials: the first `sdc` are SDC, the next `doubtful` would be at the lenient
/// limit.
struct Case {
  StratumSeen seen;
  Order order;
  std::vector<Member> line;

  Case(std::size_t trials, std::size_t sdc, std::size_t doubtful) {
    seen.bits = kBits;
    for (std::size_t i = 0; i < trials; ++i) {
      seen.outcomes.push_back(i < sdc ? Reason::low_test_accuracy : Reason::within_noise);
      seen.ranks.push_back(i < sdc ? 1 : i < sdc + doubtful ? 2 : 50);
    }
    order.names = {"weight.sign"};
    order.bits = {kBits};
    PickedRound round;
    round.fixed = true;
    round.first = {0};
    round.share = {trials};
    round.picks = picks_shuffled(1, 0, round.share);
    order.rounds = {round};
    line = {{&seen, 0}};
  }
};

ArmControls controls(std::size_t runs) {
  std::vector<Trajectory> clean;
  for (std::size_t i = 0; i < runs; ++i)
    clean.push_back({testing::evaluation(1, 0.1, 0.97, 0.2, 0.95 - 0.001 * static_cast<double>(i))});
  ArmControls arm;
  arm.golden = {{"g", {"g"}, clean.front()}};
  arm.horizon = 1;
  arm.calibration.emplace(clean, std::vector<record::Metric>{record::Metric::test_accuracy}, 0.01,
                          testing::kTargets);
  return arm;
}

// 99 clean runs cannot give a limit that is almost surely above the true one.
TEST(Harm, FewCleanRunsGiveNoLowEnd) {
  const Case many(400, 200, 0);
  EXPECT_EQ(harmful_interval(many.line, many.order, controls(99), 0.95).low, 0);
  EXPECT_EQ(harmful_interval(many.line, many.order, controls(399), 0.95).low, 0);
}

// 0.99^499 is below a quarter of 5 %: of 499 runs, the worst is beyond the true limit.
TEST(Harm, ManyCleanRunsGiveAStrictLimit) {
  Case many(400, 200, 0);
  for (std::size_t i = 0; i < 50; ++i) many.seen.ranks[i] = 2;
  const Interval harmful = harmful_interval(many.line, many.order, controls(499), 0.95);
  EXPECT_NEAR(harmful.low, anytime_finite(150, 400, kBits, 1 - 0.05 / 4).low, 1e-12);
}

TEST(Harm, TheHighEndAllowsForALowerLimit) {
  const Case doubtful(400, 20, 30);
  const Interval harmful = harmful_interval(doubtful.line, doubtful.order, controls(99), 0.95);
  EXPECT_NEAR(harmful.high, anytime_finite(50, 400, kBits, 1 - 0.05 / 4).high, 1e-12);
}

// Even when every fault was tried the calibration leaves something open.
TEST(Harm, AnExhaustedStratumHasNoIntervalOfWidthZero) {
  Case all(1000, 50, 20);
  all.seen.bits = all.order.bits[0] = 1000;
  const Interval harmful = harmful_interval(all.line, all.order, controls(99), 0.95);
  EXPECT_LT(harmful.low, 0.05);
  EXPECT_DOUBLE_EQ(harmful.high, 0.07);
}

}  // namespace
}  // namespace bitrift::analyze::harm_test
