#include "study/policy/useful_time.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "study/policy/policy_part.h"
#include "study/policy/policy_summary.h"

namespace bitrift::study::useful_time_test {
namespace {

using record::SaveMode;

// The work that is kept of a life which ends at `killed`: simulated save by save.
double kept_of(SaveMode mode, std::int64_t interval, const PolicyCosts& costs, double killed) {
  const double work = static_cast<double>(interval) * costs.step;
  double kept = 0;
  double now = costs.restart, free = 0;  // when the disk has the save before
  while (true) {
    now += work;
    if (mode == SaveMode::sync) {
      now += costs.block;
      if (now > killed) break;
    } else {
      now = std::max(now, free) + costs.block;
      free = now + costs.persist;
      if (free > killed) break;
    }
    kept += work;
  }
  return kept;
}

// The part of the time that is kept by a training that is killed `lives` times.
double simulated(SaveMode mode, std::int64_t interval, const PolicyCosts& costs, double mean, int lives) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> life(1 / mean);
  double kept = 0, spent = 0;
  for (int i = 0; i < lives; ++i) {
    const double killed = life(random);
    spent += killed;
    kept += kept_of(mode, interval, costs, killed);
  }
  return kept / spent;
}

const PolicyCosts costs[] = {{0.1, 0.2, 0, 1.5}, {0.05, 0.02, 0.3, 1}, {0.2, 1, 2, 0.5}};

TEST(UsefulTime, ThePredictionIsWhatASimulationKeeps) {
  for (const PolicyCosts& one : costs) {
    for (const SaveMode mode : {SaveMode::sync, SaveMode::async}) {
      for (const std::int64_t interval : {2, 7, 30, 120}) {
        EXPECT_NEAR(predicted_useful(mode, interval, one, 20), simulated(mode, interval, one, 20, 200'000),
                    0.004)
            << name_of(mode) << " " << interval << " " << one.block;
      }
    }
  }
}

TEST(UsefulTime, ThePredictionForOneKillIsWhatTheSimulationKeeps) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> life(1 / 20.0);
  for (const PolicyCosts& one : costs) {
    for (const SaveMode mode : {SaveMode::sync, SaveMode::async}) {
      for (const std::int64_t interval : {2, 7, 30, 120}) {
        for (int i = 0; i < 200; ++i) {
          const double killed = life(random);
          EXPECT_NEAR(static_cast<double>(predicted_steps(mode, interval, one, killed)) * one.step,
                      kept_of(mode, interval, one, killed), 1e-6)
              << name_of(mode) << " " << interval << " " << killed;
        }
      }
    }
  }
}

TEST(UsefulTime, NoOtherIntervalIsPredictedToBeMuchBetter) {
  for (const PolicyCosts& one : costs) {
    for (const SaveMode mode : {SaveMode::sync, SaveMode::async}) {
      const std::int64_t computed = computed_interval(mode, one, 20);
      const double ours = predicted_useful(mode, computed, one, 20);
      for (std::int64_t interval = 1; interval < 400; ++interval) {
        if (mode == SaveMode::async && static_cast<double>(interval) * one.step < one.persist) continue;
        EXPECT_LE(predicted_useful(mode, interval, one, 20), ours + 0.003) << interval << " of " << computed;
      }
    }
  }
}

PolicySpec with_seed(std::uint64_t seed, std::uint64_t lives) {
  PolicySpec spec;
  spec.mean_time_between_failures = 20;
  spec.lives = lives;
  spec.seed = seed;
  return spec;
}

TEST(TimeToKill, OfEachLifeIsExponentialAndRepeats) {
  constexpr int n = 20'000;
  for (const std::uint64_t life : {0, 4, 11}) {
    double sum = 0, longer = 0;
    for (std::uint64_t seed = 0; seed < n; ++seed) {
      const double time = time_to_kill(with_seed(seed, 12), life);
      ASSERT_GE(time, 0);
      ASSERT_EQ(time, time_to_kill(with_seed(seed, 12), life));
      sum += time;
      longer += time > 40 ? 1 : 0;
    }
    EXPECT_NEAR(sum / n, 20, 0.6);
    EXPECT_NEAR(longer / n, std::exp(-2), 0.01);
  }
  EXPECT_NE(time_to_kill(with_seed(3, 12), 0), time_to_kill(with_seed(4, 12), 0));
}

TEST(TimeToKill, FallsOnceIntoEachOfTheEquallyProbableRanges) {
  for (const std::uint64_t lives : {1, 2, 15}) {
    std::vector<std::uint64_t> ranges;
    for (std::uint64_t life = 0; life < lives; ++life) {
      const double quantile = -std::expm1(-time_to_kill(with_seed(7, lives), life) / 20);
      ranges.push_back(static_cast<std::uint64_t>(quantile * static_cast<double>(lives)));
    }
    if (lives == 15) {
      EXPECT_FALSE(std::is_sorted(ranges.begin(), ranges.end()));
    }
    std::sort(ranges.begin(), ranges.end());
    for (std::uint64_t i = 0; i < lives; ++i) EXPECT_EQ(ranges[i], i);
  }
}

TEST(UsefulTime, IsARatioOfSums) {
  const UsefulTime measured = measured_useful({{{10, 80}, {0.1}}, {{30, 100}, {0.2}}, {{20, 0}, {0.1}}});
  EXPECT_NEAR(measured.fraction, (8 + 20) / 60.0, 1e-12);
  // Residuals 8 - r 10, 20 - r 30, - r 20 with r = 7 / 15.
  const double r = 7 / 15.0;
  const double squares = std::pow(8 - 10 * r, 2) + std::pow(20 - 30 * r, 2) + std::pow(20 * r, 2);
  EXPECT_NEAR(measured.standard_error, std::sqrt(squares / 2 / 3) / 20, 1e-12);
  EXPECT_EQ(measured_useful({}).fraction, 0);
  EXPECT_EQ(measured.degrees, 2U);
  EXPECT_EQ(measured_useful({{{10, 80}, {0.1}}}).standard_error, 0);
  EXPECT_EQ(measured_useful({{{10, 80}, {0.1}}}).degrees, 0U);
}

TEST(UsefulTime, PairsLivesOfNeighboringLengths) {
  const std::vector<TimedLife> lives{
      {{40, 300}, {0.1}}, {{10, 80}, {0.1}}, {{30, 100}, {0.2}}, {{20, 0}, {0.1}}, {{60, 500}, {0.1}}};
  const UsefulTime measured = measured_useful(lives);
  const double r = (8 + 20 + 30 + 50) / 160.0;
  EXPECT_NEAR(measured.fraction, r, 1e-12);
  // 10 and 20 s; 30, 40 and 60 s.
  const double pair = std::pow((8 - 10 * r) + 20 * r, 2);
  const double a = 20 - 30 * r, b = 30 - 40 * r, c = 50 - 60 * r, mean = (a + b + c) / 3;
  const double three = 3 * (std::pow(a - mean, 2) + std::pow(b - mean, 2) + std::pow(c - mean, 2)) / 2;
  EXPECT_NEAR(measured.standard_error, std::sqrt(pair + three) / 160, 1e-12);
  EXPECT_EQ(measured.degrees, 3U);
}

// Studies of simulated trainings, whose steps and saves are 20 % longer or shorter in some lives.
TEST(UsefulTime, IntervalsHoldTheTruthAndStratifiedKillsMakeThemShort) {
  const PolicyCosts cost{0.15, 0.4, 0, 0.5};
  constexpr int studies = 2000;
  for (const std::uint64_t number : {5, 12, 15}) {
    for (const std::int64_t interval : {4, 16, 64}) {
      std::mt19937_64 random(9);
      std::uniform_real_distribution<double> factor(0.8, 1.2);
      const double truth = [&] {
        double kept = 0, spent = 0;
        std::exponential_distribution<double> kill(1 / 20.0);
        for (int i = 0; i < 400'000; ++i) {
          const double by = factor(random), seconds = kill(random);
          kept +=
              kept_of(SaveMode::sync, interval, {by * cost.step, by * cost.block, 0, cost.restart}, seconds);
          spent += seconds;
        }
        return kept / spent;
      }();
      double held = 0, sum = 0, squares = 0, claimed = 0;
      for (int k = 0; k < studies; ++k) {
        std::vector<TimedLife> lives;
        for (std::uint64_t i = 0; i < number; ++i) {
          const double by = factor(random);
          const PolicyCosts own{by * cost.step, by * cost.block, 0, cost.restart};
          const double seconds = time_to_kill(with_seed(k, number), i);
          const double kept = kept_of(SaveMode::sync, interval, own, seconds);
          lives.push_back({{seconds, std::llround(kept / own.step), own.step}, own});
        }
        const UsefulTime measured = measured_useful(lives);
        const analyze::Interval t =
            analyze::student_t(measured.fraction, measured.standard_error, measured.degrees, 0.95);
        held += t.low <= truth && truth <= t.high ? 1 : 0;
        sum += measured.fraction;
        squares += measured.fraction * measured.fraction;
        claimed += measured.standard_error;
      }
      EXPECT_GE(held / studies, 0.95) << number << " lives, interval " << interval;
      const double deviation = std::sqrt(squares / studies - std::pow(sum / studies, 2));
      EXPECT_GE(claimed / studies / deviation, 0.95) << number << " lives, interval " << interval;
      EXPECT_LE(claimed / studies / deviation, 3) << number << " lives, interval " << interval;
      EXPECT_NEAR(sum / studies, truth, 0.01) << number << " lives, interval " << interval;
    }
  }
}

TEST(ReplayedKills, DifferWithoutTheChanceOfTheKills) {
  std::mt19937_64 random(9);
  std::exponential_distribution<double> kill(1 / 20.0);
  const PolicyCosts before{0.1, 0.2, 0, 1.5};
  std::vector<TimedLife> lives;
  for (int i = 0; i < 10; ++i) {
    const double seconds = kill(random);
    lives.push_back({{seconds, predicted_steps(SaveMode::sync, 20, before, seconds)}, before});
  }
  const ReplayedKills same = replayed_kills(SaveMode::sync, 20, lives);
  const UsefulTime measured = measured_useful(lives);
  EXPECT_GT(measured.standard_error, 0.005);
  EXPECT_NEAR(same.before, measured.fraction, 1e-12);
  EXPECT_NEAR(same.difference.fraction, 0, 1e-12);
  EXPECT_NEAR(same.difference.standard_error, 0, 1e-12);
  // In these lives, steps and saves took twice as long as they did before.
  for (TimedLife& one : lives) {
    one.life.step = 0.2;
    one.life.block = 0.4;
    one.life.steps = predicted_steps(SaveMode::sync, 20, {0.2, 0.4, 0, 1.5}, one.life.seconds);
  }
  const ReplayedKills slower = replayed_kills(SaveMode::sync, 20, lives);
  EXPECT_NEAR(slower.before, same.before, 1e-12);
  EXPECT_NEAR(slower.own, measured_useful(lives).fraction, 1e-12);
  EXPECT_NEAR(slower.difference.fraction, slower.own - slower.before, 1e-12);
  EXPECT_LT(slower.own, slower.before);
}

TEST(MeanOwnCosts, CountEachLifeWithTheStepsThatItKept) {
  const PolicyCosts before{0.1, 0.2, 0, 1.5}, later{0.1, 0.4, 0, 2.5};
  const TimedLife saved_once{{5, 10, 0.12, 0.3, 0.5}, before}, saved_thrice{{15, 30, 0.16, 0.7, 0.1}, later};
  const TimedLife too_short{{1, 0, 0, 0, 0}, later};
  const PolicyCosts own = mean_own_costs({saved_once, saved_thrice, too_short});
  EXPECT_NEAR(own.step, 0.15, 1e-12);
  EXPECT_NEAR(own.block, 0.6, 1e-12);
  EXPECT_NEAR(own.persist, 0.2, 1e-12);
  EXPECT_NEAR(own.restart, (1.5 + 2.5 + 2.5) / 3, 1e-12);
  // No life knows what its saves cost.
  EXPECT_NEAR(mean_own_costs({too_short, {{1, 0}, before}}).block, 0.3, 1e-12);
  EXPECT_EQ(mean_own_costs({}).block, 0);
}

TEST(PolicyIntervals, AreMultiplesOfTheComputedOneEachOnce) {
  PolicySpec spec;
  spec.mean_time_between_failures = 20;
  const PolicyCosts one{0.1, 0.2, 0, 1};
  const std::int64_t computed = computed_interval(SaveMode::sync, one, 20);
  EXPECT_EQ(policy_intervals(spec, SaveMode::sync, one),
            (std::vector<std::int64_t>{(computed + 2) / 4, (computed + 1) / 2, computed, 2 * computed,
                                       4 * computed}));
  EXPECT_EQ(policy_intervals(spec, SaveMode::sync, {10, 0.1, 0, 1}), (std::vector<std::int64_t>{1, 2, 4}));
}

TEST(PolicySummary, NamesTheBestAndTheComputedInterval) {
  StudySpec spec;
  spec.policy.mean_time_between_failures = 20;
  std::vector<StudyRow> rows;
  const auto add = [&](PolicyResult result) { rows.push_back({Format::hdf5, FileWriter::bitrift, result}); };
  const PolicyCosts one{0.1, 0.2, 0, 1};
  const std::int64_t computed = computed_interval(SaveMode::sync, one, 20);
  const PolicyCosts often{0.1, 0.05, 0, 1}, later{0.1, 0.07, 0, 1};
  add({SaveMode::sync, 0, 0, one});
  for (const std::int64_t factor : {1, 2, 4}) add({SaveMode::sync, computed * factor, 0, often});
  add({SaveMode::sync, 2 * computed, 1, later});
  for (const std::uint64_t turn : {0, 1}) {
    for (const std::int64_t factor : {1, 2, 4})
      add({SaveMode::sync, computed * factor, turn, Life{10, factor == 2 ? 90 : 50}});
  }
  const std::vector<ModeSummary> modes = summarize_policy(spec, rows);
  ASSERT_EQ(modes.size(), 1U);
  const ModeSummary& mode = modes[0];
  EXPECT_EQ(mode.computed, computed);
  ASSERT_EQ(mode.cells.size(), 3U);
  EXPECT_EQ(mode.best, 1U);
  EXPECT_EQ(mode.nearest, 0U);
  EXPECT_NEAR(mode.cells[1].measured.fraction, 0.9, 1e-12);
  EXPECT_EQ(mode.costs, one);
  EXPECT_EQ(mode.cells[0].costs, often);
  EXPECT_NEAR(mode.cells[0].predicted, predicted_useful(SaveMode::sync, computed, often, 20), 1e-12);
  EXPECT_NEAR(mode.cells[1].predicted, predicted_useful(SaveMode::sync, 2 * computed, {0.1, 0.06, 0, 1}, 20),
              1e-12);
  // Each life has the costs that were measured last before it.
  const std::vector<TimedLife> timed{{Life{10, 90}, often}, {Life{10, 90}, later}};
  EXPECT_EQ(mode.cells[1].replayed.before, replayed_kills(SaveMode::sync, 2 * computed, timed).before);
  const std::string table = policy_table(spec, modes);
  EXPECT_NE(table.find("90.0% [90.0, 90.0]"), std::string::npos) << table;
  EXPECT_NE(table.find(" best"), std::string::npos);
  EXPECT_EQ(policy_json(modes)[0]["best_interval"], 2 * computed);
}

}  // namespace
}  // namespace bitrift::study::useful_time_test
