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
  arm.calibration.emplace(clean, std::vector{record::Metric::test_accuracy}, 0.01, testing::kTargets);
  return arm;
}

TEST(Harm, FalseAlarmsAreTakenOffTheLowEnd) {
  const Case some(400, 100, 0);
  const FalseSdc measured{{30, 0}, {30, 0}};
  const Interval harmful = harmful_interval(some.line, some.order, controls(99), measured, 0.95);
  const double called = anytime_finite(100, 400, kBits, 1 - 0.05 / 4).low;
  const double clean = upper_bound({60, 0}, 1 - 0.05 / 4);
  EXPECT_NEAR(harmful.low, (called - clean) / (1 - clean), 1e-12);
  EXPECT_GT(harmful.low, 0.1);
  EXPECT_NEAR(harmful.high, anytime_finite(100, 400, kBits, 1 - 0.05 / 4).high, 1e-12);
}

TEST(Harm, FewSdcsMayAllBeFalseAlarms) {
  const Case few(400, 3, 0);
  EXPECT_EQ(harmful_interval(few.line, few.order, controls(99), {{30, 0}, {30, 0}}, 0.95).low, 0);
  // Without a measured rate the calibration's own bound counts; without a hit it is the only one.
  const Case many(400, 200, 0);
  const ArmControls arm = controls(99);
  const double clean = arm.calibration->level_with(1 - 0.05 / 4);
  EXPECT_NEAR(harmful_interval(many.line, many.order, arm, {}, 0.95).low,
              (anytime_finite(200, 400, kBits, 1 - 0.05 / 4).low - clean) / (1 - clean), 1e-12);
  EXPECT_EQ(harmful_interval(many.line, many.order, arm, {{3, 3}, {}}, 0.95).low, 0);
}

TEST(Harm, TheHighEndAllowsForALowerLimit) {
  const Case doubtful(400, 20, 30);
  const Interval harmful = harmful_interval(doubtful.line, doubtful.order, controls(99), {{60, 0}, {}}, 0.95);
  EXPECT_NEAR(harmful.high, anytime_finite(50, 400, kBits, 1 - 0.05 / 4).high, 1e-12);
}

// Even when every fault was tried the calibration leaves something open.
TEST(Harm, AnExhaustedStratumHasNoIntervalOfWidthZero) {
  Case all(1000, 50, 20);
  all.seen.bits = all.order.bits[0] = 1000;
  const Interval harmful = harmful_interval(all.line, all.order, controls(99), {{200, 0}, {}}, 0.95);
  EXPECT_LT(harmful.low, 0.05);
  EXPECT_DOUBLE_EQ(harmful.high, 0.07);
}

}  // namespace
}  // namespace bitrift::analyze::harm_test
