#include "train/state/checkpoint_clock.h"

#include <gtest/gtest.h>

namespace bitrift::train::checkpoint_clock_test {
namespace {

using record::CheckpointPolicy;
using record::SaveMode;

CheckpointPolicy automatic(SaveMode mode) {
  return {.automatic = true, .mode = mode, .mean_time_between_failures = 100};
}

// Steps of one second, after a first one of ten.
class MadeUp {
 public:
  explicit MadeUp(const CheckpointPolicy& policy) : clock(policy) {}
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      now += first_ ? 10 : 1;
      first_ = false;
      clock.step_done(now);
    }
  }
  // persist < 0: not yet.
  void save(double blocking, double persist = -1) {
    clock.saved(now, now + blocking);
    now += blocking;
    if (persist >= 0) clock.durable(now + persist);
  }
  CheckpointClock clock;
  double now = 1000;

 private:
  bool first_ = true;
};

TEST(CheckpointClock, SyncGivesDalysIntervalOfTheMeasuredTimes) {
  MadeUp run(automatic(SaveMode::sync));
  run.steps(4);
  run.save(2);
  const ChosenInterval chosen = run.clock.choose();
  EXPECT_DOUBLE_EQ(chosen.step_seconds, 1);
  EXPECT_DOUBLE_EQ(chosen.cost, 2);
  EXPECT_DOUBLE_EQ(chosen.seconds, record::daly_interval(2, 100));
  EXPECT_EQ(chosen.steps, 19);  // 20 (1 + 0.1 / 3 + 0.01 / 9) - 2 = 18.7
}

TEST(CheckpointClock, TheTimeOfAStepHasNoSavesInIt) {
  MadeUp run(automatic(SaveMode::sync));
  run.steps(4);
  run.save(2);
  run.steps(10);
  run.save(50);
  EXPECT_DOUBLE_EQ(run.clock.choose().step_seconds, 1);
}

TEST(CheckpointClock, SoFarAreTheMeansOfTheSavesBefore) {
  MadeUp run({.every = 10, .mode = SaveMode::async});
  EXPECT_EQ(run.clock.so_far(run.now), record::Json({{"written", 0}}));
  run.steps(10);
  run.save(2, 5);
  run.steps(10);
  run.save(4, 7);
  run.steps(10);
  EXPECT_EQ(run.clock.so_far(run.now),
            record::Json(
                {{"written", 2}, {"step_seconds", 1.0}, {"block_seconds", 3.0}, {"persist_seconds", 6.0}}));
}

TEST(CheckpointClock, TheFirstSaveCountsUntilAnotherIsKnown) {
  MadeUp run(automatic(SaveMode::sync));
  run.steps(4);
  run.save(9);
  EXPECT_DOUBLE_EQ(run.clock.choose().cost, 9);
  run.save(2);
  EXPECT_DOUBLE_EQ(run.clock.choose().cost, 2);
  run.save(4);
  EXPECT_DOUBLE_EQ(run.clock.choose().cost, 3);
  for (int i = 0; i < 8; ++i) run.save(1);
  EXPECT_DOUBLE_EQ(run.clock.choose().cost, 1);
}

TEST(CheckpointClock, AsyncIsNeverShorterThanUntilTheDiskHasTheFile) {
  MadeUp run(automatic(SaveMode::async));
  run.steps(4);
  run.save(0.5);
  // Nothing is known of the disk.
  EXPECT_DOUBLE_EQ(run.clock.choose().seconds, record::daly_interval(0.5, 100));
  run.clock.durable(run.now + 30);
  EXPECT_DOUBLE_EQ(run.clock.choose().persist, 30);
  EXPECT_DOUBLE_EQ(run.clock.choose().seconds, 30);
  EXPECT_EQ(run.clock.choose().steps, 30);
}

TEST(CheckpointClock, ASaveThatWaitedForTheOneBeforeSaysNothingOfItsCost) {
  MadeUp run(automatic(SaveMode::async));
  run.steps(4);
  run.save(0.5, 30);
  run.steps(10);
  run.save(20.5, 3);  // 20 of which it waited
  EXPECT_DOUBLE_EQ(run.clock.choose().cost, 0.5);
  run.steps(30);
  run.save(0.25, 3);
  EXPECT_DOUBLE_EQ(run.clock.choose().cost, 0.25);
}

TEST(CheckpointClock, ReportsWhatWasMeasured) {
  EXPECT_EQ(CheckpointClock({.every = 3}).report(), std::nullopt);
  MadeUp run({.every = 3, .mode = SaveMode::async});
  run.steps(3);
  for (const double blocking : {0.5, 0.25, 4.0}) run.save(blocking, 2);
  const record::Json seconds = run.clock.report().value();
  EXPECT_EQ(seconds, record::Json::parse(R"({"written": 3,
    "blocking": {"median": 0.5, "max": 4.0, "total": 4.75}, "persist": {"median": 2.0, "max": 2.0, "total": 6.0}})"));
  MadeUp chosen(automatic(SaveMode::sync));
  chosen.steps(4);
  chosen.save(2);
  const std::int64_t steps = chosen.clock.choose().steps;
  const record::Json interval = chosen.clock.report().value()["interval"];
  EXPECT_EQ(interval["steps"], steps);
  EXPECT_EQ(interval["cost"], 2.0);
  EXPECT_EQ(interval["mean_time_between_failures"], 100.0);
  EXPECT_FALSE(interval.contains("persist"));
}

}  // namespace
}  // namespace bitrift::train::checkpoint_clock_test
