#include "spec/checkpoint_policy.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "design/campaign_spec.h"
#include "spec/training_spec.h"
#include "tests_support.h"
#include "unit/places.h"
#include "unit/scratch.h"

namespace bitrift::design::checkpoint_policy_test {
namespace {

using namespace record;

using ::testing::HasSubstr;
using tests::error_of;

// Where a function with one minimum has it, by golden-section search.
template <typename Function>
double minimum(double low, double high, const Function& of) {
  const double part = (std::sqrt(5.0) - 1) / 2;
  for (int i = 0; i < 200; ++i) {
    const double left = high - part * (high - low), right = low + part * (high - low);
    (of(left) < of(right) ? high : low) = of(left) < of(right) ? right : left;
  }
  return (low + high) / 2;
}

struct Case {
  double cost, mean;
};
const Case cases[] = {{0.01, 20}, {1, 3600}, {30, 86400}, {300, 3600}, {1, 3}};

TEST(CheckpointIntervalTest, YoungIsTheSquareRootAndTheMinimumOfItsModel) {
  EXPECT_DOUBLE_EQ(young_interval(2, 100), 20);
  for (const Case& one : cases) {
    const auto waste = [&](double w) { return one.cost / w + w / (2 * one.mean); };
    EXPECT_NEAR(minimum(1e-6, 1e6, waste) / young_interval(one.cost, one.mean), 1, 1e-6);
  }
}

TEST(CheckpointIntervalTest, DalyIsWhatThePaperPrints) {
  // sqrt(2 x 8 x 100) (1 + 0.2 / 3 + 0.04 / 9) - 8
  EXPECT_NEAR(daly_interval(8, 100), 40 * (1 + 0.2 / 3 + 0.04 / 9) - 8, 1e-12);
  EXPECT_DOUBLE_EQ(daly_interval(200, 100), 100);
  EXPECT_DOUBLE_EQ(daly_interval(1e6, 100), 100);
  EXPECT_NEAR(daly_interval(200 * (1 - 1e-9), 100), 200 * (1 + 1.0 / 3 + 1.0 / 9) - 200, 1e-5);
}

TEST(CheckpointIntervalTest, DalyCostsAsMuchAsTheNumericMinimumOfItsModel) {
  for (const Case& one : cases) {
    const auto slowdown = [&](double w) { return daly_slowdown(w, one.cost, 5, one.mean); };
    const double best = minimum(1e-3, 50 * one.mean, slowdown), ours = daly_interval(one.cost, one.mean);
    EXPECT_NEAR(ours / best, 1, 0.005) << one.cost << " " << one.mean;
    EXPECT_NEAR(slowdown(ours) / slowdown(best), 1, 1e-4);
    EXPECT_LE(slowdown(ours), slowdown(young_interval(one.cost, one.mean)) * (1 + 1e-12));
  }
}

TEST(CheckpointIntervalTest, DalysModelIsTheExpectedTimeOfARun) {
  // No failures: only the cost. A failure costs half an interval and the restart, to first order.
  EXPECT_NEAR(daly_slowdown(100, 5, 10, 1e12), 1.05, 1e-3);
  EXPECT_NEAR(daly_slowdown(100, 0, 10, 1e5), 1 + (50 + 10) / 1e5, 1e-6);
}

TEST(CheckpointIntervalTest, AsynchronousCostsAsMuchAsTheMinimumWhereASaveNeverWaitsForTheOneBefore) {
  for (const Case& one : cases) {
    for (const double persist : {0.0, 1.0, 1e4}) {
      const auto slowdown = [&](double w) {
        return asynchronous_slowdown(w, one.cost, persist, 7, one.mean);
      };
      const double ours = asynchronous_interval(one.cost, persist, one.mean);
      EXPECT_GE(ours, persist);
      const double best = minimum(std::max(persist, 1e-3), std::max(2 * persist, 50 * one.mean), slowdown);
      if (!std::isfinite(slowdown(best))) continue;
      EXPECT_NEAR(slowdown(ours) / slowdown(best), 1, 1e-4);
    }
  }
  EXPECT_DOUBLE_EQ(asynchronous_interval(8, 1, 100), daly_interval(8, 100));
  EXPECT_DOUBLE_EQ(asynchronous_interval(8, 50, 100), 50);
}

// Save by save: what processes that live for an exponential time leave on the disk.
TEST(CheckpointIntervalTest, AsynchronousSlowdownIsThatOfASimulation) {
  const double interval = 7, stall = 0.5, persist = 4, restart = 3, mean = 40;
  std::mt19937_64 random(3);
  std::exponential_distribution<double> life(1 / mean);
  double kept = 0, spent = 0;
  for (int i = 0; i < 400'000; ++i) {
    const double end = life(random);
    spent += end;
    kept += interval * std::max(0.0, std::floor((end - restart - persist) / (interval + stall)));
  }
  EXPECT_NEAR(asynchronous_slowdown(interval, stall, persist, restart, mean) * kept / spent, 1, 0.01);
  EXPECT_DOUBLE_EQ(asynchronous_slowdown(interval, stall, 0, restart, mean),
                   daly_slowdown(interval, stall, restart, mean));
}

TEST(CheckpointIntervalTest, StepsAreRoundedAndAtLeastOne) {
  EXPECT_EQ(steps_of_interval(10, 3), 3);
  EXPECT_EQ(steps_of_interval(11, 3), 4);
  EXPECT_EQ(steps_of_interval(0.1, 3), 1);
  EXPECT_EQ(steps_of_interval(-1, 3), 1);
  EXPECT_EQ(steps_of_interval(1e300, 1e-9), 1'000'000'000);
  EXPECT_EQ(steps_of_interval(1, 0), 1'000'000'000);
}

Json training(const Json& checkpoint) {
  Json spec = Json::parse(R"({"model": {"name": "lenet"}, "data": {"name": "digits"},
    "optimizer": {"name": "sgd", "learning_rate": 0.05}, "batch_size": 64, "epochs": 1, "seed": 1})");
  if (!checkpoint.is_null()) spec["checkpoint"] = checkpoint;
  return spec;
}

class CheckpointPolicyTest : public ::testing::Test {
 protected:
  TrainingSpec read(const Json& checkpoint) {
    replace_text(scratch_ / "t.json", training(checkpoint).dump(1));
    return read_training_spec(scratch_ / "t.json");
  }
  std::string error(const Json& checkpoint) {
    return error_of([&] { (void)read(checkpoint); });
  }
  testing::Scratch scratch_;
};

TEST_F(CheckpointPolicyTest, IsReadInFull) {
  EXPECT_EQ(read(nullptr).checkpoint, CheckpointPolicy());
  EXPECT_EQ(read({{"every", 20}, {"mode", "async"}, {"keep", 3}}).checkpoint,
            (CheckpointPolicy{.every = 20, .mode = SaveMode::async, .keep = 3}));
  EXPECT_EQ(read({{"every", 7}, {"writer", "shared"}}).checkpoint,
            (CheckpointPolicy{.every = 7, .writer = SaveWriter::shared}));
  EXPECT_EQ(read({{"every", "auto"}, {"mean_time_between_failures", 3600}}).checkpoint,
            (CheckpointPolicy{.automatic = true, .mean_time_between_failures = 3600}));
}

TEST_F(CheckpointPolicyTest, IsNotPartOfWhatACheckpointCarries) {
  EXPECT_EQ(to_text(read({{"every", 20}, {"keep", 3}})), to_text(read(nullptr)));
}

TEST_F(CheckpointPolicyTest, WrongValuesAreNamedWithTheirPlace) {
  EXPECT_THAT(error({{"every", "often"}}), HasSubstr("checkpoint.every"));
  EXPECT_THAT(error({{"every", -1}}), HasSubstr("checkpoint.every"));
  EXPECT_THAT(error({{"every", 1.5}}), HasSubstr("checkpoint.every"));
  EXPECT_THAT(error({{"every", 5}, {"keep", 0}}), HasSubstr("checkpoint.keep"));
  EXPECT_THAT(error({{"every", 5}, {"mode", "later"}}), HasSubstr("sync, async"));
  EXPECT_THAT(error({{"every", 5}, {"writer", "all"}}), HasSubstr("gather, shared, direct"));
  EXPECT_THAT(error({{"every", "auto"}, {"mean_time_between_failures", 0}}),
              HasSubstr("mean_time_between_failures"));
  EXPECT_THAT(error({{"often", 5}}), HasSubstr("often"));
}

TEST_F(CheckpointPolicyTest, ACampaignHasNoUseForIt) {
  const std::filesystem::path quickstart =
      std::filesystem::path(bitrift::testing::source_dir) / "campaigns" / "quickstart.json";
  EXPECT_THAT(error_of([&] { (void)read_campaign_spec(quickstart, {"base.train.checkpoint.every=5"}); }),
              HasSubstr("base.train.checkpoint: a campaign trains its base in one go"));
}

TEST_F(CheckpointPolicyTest, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [](const CheckpointPolicy& policy) {
    return error_of([&] { check_checkpoint_policy(policy); });
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({.every = 5, .mode = SaveMode::async}), "");
  EXPECT_EQ(refused({.automatic = true, .mode = SaveMode::async, .mean_time_between_failures = 1}), "");
  EXPECT_THAT(refused({.automatic = true}), HasSubstr("give --mtbf SECONDS"));
  EXPECT_THAT(refused({.every = 5, .mean_time_between_failures = 9}),
              HasSubstr("only by --checkpoint-every auto"));
  EXPECT_THAT(refused({.mode = SaveMode::async}), HasSubstr("needs --checkpoint-every"));
}

}  // namespace
}  // namespace bitrift::design::checkpoint_policy_test
