#include "train/step/schedule.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::train::schedule_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

record::ScheduleSpec schedule(const char* name) {
  record::ScheduleSpec spec;
  spec.name = parse_named<record::ScheduleName>(name);
  return spec;
}

record::ScheduleSpec cosine(std::int64_t warmup, std::int64_t steps, double lowest) {
  record::ScheduleSpec spec = schedule("cosine");
  spec.warmup_steps = warmup;
  spec.steps = steps;
  spec.min_learning_rate = lowest;
  return spec;
}

record::ScheduleSpec plateau(int patience, int cooldown = 0, double factor = 0.5) {
  record::ScheduleSpec spec = schedule("plateau");
  spec.patience = patience;
  spec.cooldown = cooldown;
  spec.factor = factor;
  return spec;
}

Progress started(const record::ScheduleSpec& spec, double base) {
  Progress progress;
  start_schedule(spec, base, progress);
  return progress;
}

std::vector<double> rates_of_steps(const record::ScheduleSpec& spec, double base, int steps, int total) {
  Progress progress = started(spec, base);
  std::vector<double> rates;
  for (int i = 0; i < steps; ++i) {
    rates.push_back(progress.learning_rate);
    progress.step += 1;
    after_step(spec, total, progress);
  }
  return rates;
}

// Learning rates after evaluations with these test losses.
std::vector<double> rates_of_losses(const record::ScheduleSpec& spec, double base,
                                    const std::vector<double>& losses) {
  Progress progress = started(spec, base);
  std::vector<double> rates;
  for (const double loss : losses) {
    record::Evaluation evaluation;
    evaluation.test_loss = loss;
    after_evaluation(spec, evaluation, progress);
    rates.push_back(progress.learning_rate);
  }
  return rates;
}

std::string refusal(const record::ScheduleSpec& spec, double base, std::int64_t total) {
  record::TrainingSpec training;
  training.optimizer.learning_rate = base;
  training.schedule = spec;
  try {
    check_schedule(training, total);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Schedule, ConstantLeavesAnyLearningRateAlone) {
  const record::ScheduleSpec spec = schedule("constant");
  Progress progress = started(spec, 0.5);
  EXPECT_EQ(progress.learning_rate, 0.5);
  progress.learning_rate = 1e30;  // as a flip may leave it
  progress.step = progress.epoch = 10;
  after_step(spec, 100, progress);
  after_epoch(spec, progress);
  after_evaluation(spec, {}, progress);
  EXPECT_EQ(progress.learning_rate, 1e30);
}

TEST(Cosine, FallsFromTheBaseToTheLowestAndStaysThere) {
  const std::vector<double> rates = rates_of_steps(cosine(0, 4, 0.5), 2.5, 7, 100);
  EXPECT_EQ(rates[0], 2.5);
  EXPECT_DOUBLE_EQ(rates[1], 1.5 + std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(rates[2], 1.5);
  EXPECT_DOUBLE_EQ(rates[3], 1.5 - std::sqrt(0.5));
  EXPECT_EQ(rates[4], 0.5);
  EXPECT_EQ(rates[6], 0.5);
}

TEST(Cosine, WarmsUpInALineThatMeetsTheCosineAtItsTop) {
  const std::vector<double> rates = rates_of_steps(cosine(3, 0, 0), 1, 6, 7);
  EXPECT_EQ(rates, (std::vector<double>{0.25, 0.5, 0.75, 1, rates[4], rates[5]}));
  EXPECT_DOUBLE_EQ(rates[4], 0.5 + std::sqrt(0.5) / 2);
  EXPECT_DOUBLE_EQ(rates[5], 0.5);
  EXPECT_EQ(initial_learning_rate(cosine(3, 0, 0), 1), 0.25);
}

TEST(Cosine, EndsWithTheSpecsEpochsUnlessToldWhere) {
  EXPECT_EQ(rates_of_steps(cosine(0, 0, 0), 1, 9, 8)[8], 0);
  EXPECT_GT(rates_of_steps(cosine(0, 0, 0), 1, 9, 16)[8], 0.4);
  EXPECT_EQ(rates_of_steps(cosine(0, 8, 0), 1, 9, 16)[8], 0);
}

TEST(Cosine, AFlippedRateLastsOneStepAndAFlippedBaseLasts) {
  const record::ScheduleSpec spec = cosine(0, 4, 0);
  Progress progress = started(spec, 1);
  progress.learning_rate = kNaN;
  progress.step = 2;
  after_step(spec, 4, progress);
  EXPECT_DOUBLE_EQ(progress.learning_rate, 0.5);
  progress.base_learning_rate = 1e30;
  after_step(spec, 4, progress);
  EXPECT_DOUBLE_EQ(progress.learning_rate, 5e29);
}

TEST(Step, MultipliesTheRateAtHandAfterEveryFewEpochs) {
  record::ScheduleSpec spec = schedule("step");
  spec.every = 2;
  spec.gamma = 0.5;
  Progress progress = started(spec, 8);
  std::vector<double> rates;
  for (progress.epoch = 1; progress.epoch <= 5; ++progress.epoch) {
    after_epoch(spec, progress);
    after_step(spec, 100, progress);
    rates.push_back(progress.learning_rate);
  }
  EXPECT_EQ(rates, (std::vector<double>{8, 4, 4, 2, 2}));
  progress.learning_rate = 1e30;
  progress.epoch = 6;
  after_epoch(spec, progress);
  EXPECT_EQ(progress.learning_rate, 5e29) << "a flipped rate goes on from where it is";
}

TEST(Plateau, ReducesWhenMoreThanPatienceEvaluationsAreNotBetter) {
  EXPECT_EQ(rates_of_losses(plateau(1), 8, {1, 1, 1, 0.5, 0.5, 0.5}),
            (std::vector<double>{8, 8, 4, 4, 4, 2}));
  EXPECT_EQ(rates_of_losses(plateau(0), 8, {1, 0.5, 0.5}), (std::vector<double>{8, 8, 4}));
}

TEST(Plateau, AnImprovementBelowTheRelativeThresholdIsNone) {
  record::ScheduleSpec spec = plateau(0);
  spec.threshold = 0.25;
  EXPECT_EQ(rates_of_losses(spec, 8, {4, 3, 2.9}), (std::vector<double>{8, 4, 4}));
  EXPECT_EQ(rates_of_losses(spec, 8, {4, 2.75}), (std::vector<double>{8, 8}));
}

TEST(Plateau, CoolsDownBeforeItCountsAgain) {
  EXPECT_EQ(rates_of_losses(plateau(0, 2), 8, {1, 1, 1, 1, 1}), (std::vector<double>{8, 4, 4, 4, 2}));
}

TEST(Plateau, StopsAtTheLowestRateAndIgnoresReductionsThatDoNotMatter) {
  record::ScheduleSpec spec = plateau(0);
  spec.min_learning_rate = 3;
  EXPECT_EQ(rates_of_losses(spec, 8, {1, 1, 1, 1}), (std::vector<double>{8, 4, 3, 3}));
  EXPECT_EQ(rates_of_losses(plateau(0), 1.5e-8, {1, 1}), (std::vector<double>{1.5e-8, 1.5e-8}));
  EXPECT_EQ(rates_of_losses(plateau(0), 4e-8, {1, 1}), (std::vector<double>{4e-8, 2e-8}));
}

TEST(Plateau, NaNIsNeverBetter) {
  EXPECT_EQ(rates_of_losses(plateau(1), 8, {1, kNaN, kNaN, 0.5}), (std::vector<double>{8, 8, 4, 4}));
  EXPECT_EQ(rates_of_losses(plateau(0), 8, {kInfinity}), (std::vector<double>{4})) << "nor is infinity";
}

TEST(Plateau, MonitorsTheMetricThatIsNamed) {
  record::ScheduleSpec spec = plateau(0);
  spec.monitor = record::Monitor::test_accuracy;
  Progress progress = started(spec, 8);
  EXPECT_EQ(progress.plateau_best, -kInfinity);
  record::Evaluation evaluation;
  evaluation.test_accuracy = 0.5;
  after_evaluation(spec, evaluation, progress);
  evaluation.test_accuracy = 0.75;
  evaluation.test_loss = 100;
  after_evaluation(spec, evaluation, progress);
  EXPECT_EQ(progress.learning_rate, 8);
  EXPECT_EQ(progress.plateau_best, 0.75);
  after_evaluation(spec, evaluation, progress);
  EXPECT_EQ(progress.learning_rate, 4);

  spec.monitor = record::Monitor::train_loss;
  progress = started(spec, 8);
  after_evaluation(spec, evaluation, progress);  // no training metrics: no step was taken
  EXPECT_EQ(progress.plateau_best, kInfinity);
  EXPECT_EQ(progress.plateau_bad, 0);
  evaluation.train_loss = 2;
  after_evaluation(spec, evaluation, progress);
  EXPECT_EQ(progress.plateau_best, 2);
}

TEST(Plateau, FlippedStateHasConsequencesButNoOverflow) {
  const record::ScheduleSpec spec = plateau(0);
  Progress progress = started(spec, 8);
  progress.plateau_best = 0;
  progress.plateau_bad = std::numeric_limits<std::int64_t>::max();
  record::Evaluation evaluation;
  evaluation.test_loss = 1;
  after_evaluation(spec, evaluation, progress);
  EXPECT_EQ(progress.plateau_bad, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(progress.learning_rate, 8);
}

TEST(CheckSchedule, RefusesWhatCannotBeFollowedByTheNameOfItsKey) {
  EXPECT_THAT(refusal(cosine(5, 0, 0), 1, 5),
              testing::HasSubstr("schedule.warmup_steps: a warm-up of 5 steps"));
  EXPECT_THAT(refusal(cosine(5, 4, 0), 1, 100), testing::HasSubstr("ends at step 4"));
  EXPECT_THAT(refusal(cosine(0, 4, 2), 1, 100), testing::HasSubstr("schedule.min_learning_rate: 2 is above"));
  EXPECT_EQ(refusal(cosine(4, 0, 1), 1, 5), "");
  EXPECT_EQ(refusal(schedule("constant"), 1, 0), "");
}

}  // namespace
}  // namespace bitrift::train::schedule_test
