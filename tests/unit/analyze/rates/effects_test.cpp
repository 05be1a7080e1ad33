#include "analyze/rates/effects.h"

#include <gtest/gtest.h>

#include "analyze/rates/total_interval.h"

namespace bitrift::analyze::effects_test {
namespace {

std::vector<PickedRound> one_round(const std::vector<std::uint64_t>& draws) {
  PickedRound round;
  round.fixed = true;
  round.first.assign(draws.size(), 0);
  round.share = draws;
  round.picks = picks_shuffled(7, 0, draws);
  return {round};
}

TEST(Effects, CountsTrialsBeyondEachLimitAndCrashesApart) {
  // 0.1 points as a difference of two accuracies: 100 x (0.95 - 0.949) is a little more than 0.1.
  const double by_rounding = 100 * (0.95 - 0.949);
  ASSERT_GT(by_rounding, 0.1);
  const StratumLosses stratum{
      1000, {-3.0, 0.0, by_rounding, 0.2, 0.7, 1.5, 4.0, 8.0, 30.0, std::nullopt}, true};
  const Effects effects = effects_of(one_round({10}), {stratum}, 0.95);
  const double expected[] = {6, 5, 4, 3, 2, 1};
  for (std::size_t k = 0; k < effect_points.size(); ++k) {
    EXPECT_DOUBLE_EQ(effects.beyond[k].points, effect_points[k]);
    EXPECT_NEAR(effects.beyond[k].estimate, expected[k] / 10, 1e-12);
    const auto hits = static_cast<std::uint64_t>(expected[k]);
    const Interval band = anytime_finite(hits, 10, 1000, 1 - 0.05 / 6);
    EXPECT_EQ(effects.beyond[k].band.low, band.low);
    EXPECT_EQ(effects.beyond[k].band.high, band.high);
  }
  EXPECT_NEAR(effects.crash, 0.1, 1e-12);
}

TEST(Effects, StrataWeighByTheirBitsAndUntriedOnesWidenTheBands) {
  const StratumLosses harmless{300, std::vector<std::optional<double>>(20, 0.0), true};
  const StratumLosses harmful{100, std::vector<std::optional<double>>(20, 20.0), true};
  const Effects both = effects_of(one_round({20, 20}), {harmless, harmful}, 0.95);
  for (const Effect& effect : both.beyond) EXPECT_NEAR(effect.estimate, 0.25, 1e-12);
  const Effects one = effects_of(one_round({20, 20}), {{300, {}, true}, harmful}, 0.95);
  for (const Effect& effect : one.beyond) {
    EXPECT_NEAR(effect.estimate, 1, 1e-12);
    EXPECT_LE(effect.band.low, 0.25);
  }
  const Effects of_unknown_size = effects_of(one_round({20, 20}), {{0, {}, true}, harmful}, 0.95);
  EXPECT_EQ(of_unknown_size.beyond[0].band.low, 0);
}

}  // namespace
}  // namespace bitrift::analyze::effects_test
