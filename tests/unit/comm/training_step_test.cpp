#include "comm/model/training_step.h"

#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::comm {
namespace {

TEST(TrainingStep, AddsComputingAndTheAllreduce) {
  const TrainingStep step = training_step({.compute = 0.016}, 0.004);
  EXPECT_DOUBLE_EQ(step.seconds(), 0.02);
  EXPECT_DOUBLE_EQ(step.rate(), 50);
  EXPECT_EQ(step.hidden, 0);
}

TEST(TrainingStep, HidesAPartOfTheAllreduceButNoMoreThanTheBackwardPassIsLong) {
  EXPECT_DOUBLE_EQ(training_step({.compute = 0.3, .overlap = 0.5}, 0.1).seconds(), 0.35);
  EXPECT_DOUBLE_EQ(training_step({.compute = 0.3, .overlap = 1}, 0.1).seconds(), 0.3);
  EXPECT_DOUBLE_EQ(training_step({.compute = 0.3, .overlap = 1}, 0.5).seconds(), 0.6);
  EXPECT_DOUBLE_EQ(training_step({.compute = 0, .overlap = 1}, 0.5).seconds(), 0.5);
}

TEST(TrainingStep, LosesTheDeadChipsAndTheSlowerStep) {
  const TrainingStep whole = training_step({.compute = 0.1}, 0.1),
                     slower = training_step({.compute = 0.1}, 0.15);
  const FailureLoss same = failure_loss(whole, 12, whole, 16);
  EXPECT_DOUBLE_EQ(same.chips, 0.25);
  EXPECT_DOUBLE_EQ(same.throughput, 0.25);
  // 12 of 16 chips, each at 4/5 of its rate.
  EXPECT_DOUBLE_EQ(failure_loss(slower, 12, whole, 16).throughput, 0.4);
  EXPECT_EQ(failure_loss(whole, 16, whole, 16).throughput, 0);
}

TEST(TrainingStep, KnowsTheGradientsOfTwoNetworks) {
  EXPECT_EQ(assumed_compute(102e6), 0.016);
  EXPECT_EQ(assumed_compute(1.34e9), 0.17);
  EXPECT_EQ(assumed_compute(102e6 + 1), std::nullopt);
}

TEST(TrainingStep, RefusesWhatIsNoStep) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)training_step({.compute = -1}, 1), Error);
  EXPECT_THROW((void)training_step({.compute = infinite}, 1), Error);
  EXPECT_THROW((void)training_step({.compute = 1}, -1), Error);
  EXPECT_THROW((void)training_step({.compute = 1}, infinite), Error);
  EXPECT_THROW((void)training_step({.compute = 0}, 0), Error);
  EXPECT_THROW((void)training_step({.compute = 1, .overlap = 1.01}, 1), Error);
  EXPECT_THROW((void)training_step({.compute = 1, .overlap = -0.01}, 1), Error);
}

}  // namespace
}  // namespace bitrift::comm
