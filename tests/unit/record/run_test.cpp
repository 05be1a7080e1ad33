#include "record/run.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::record::run_test {
namespace {

TEST(RunResult, NamesNoAlarmsWhenThereAreNone) {
  const Json value = to_json(RunResult{});
  EXPECT_FALSE(value.contains("alarms"));
  EXPECT_FALSE(value.contains("alarm_count"));
  EXPECT_EQ(run_result_from_json(value).alarm_count, 0);
}

TEST(RunResult, OfAVersionWithoutCappedLossLacksIt) {
  RunResult result;
  result.replicas = {{{11, 22, 0.1, 0.99, 0.5, 0.75}}};
  const Json value = to_json(result);
  EXPECT_FALSE(value.contains("test_targets"));
  EXPECT_FALSE(value["replicas"][0][0].contains("test_capped_loss"));
  const RunResult back = run_result_from_json(value);
  EXPECT_EQ(back.test_targets, std::nullopt);
  EXPECT_EQ(back.replicas[0][0].test_capped_loss, std::nullopt);
}

TEST(RunResult, GivesAlarmsBackWithValuesThatAreNotFinite) {
  RunResult result;
  result.alarm_count = 7;
  result.alarms = {{Guard::nonfinite, 12, 1, "model/0.weight", std::numeric_limits<double>::infinity(), 0},
                   {Guard::nonfinite, 13, 0, "", std::nan(""), 0},
                   {Guard::loss_spike, 14, 0, "", 0.1, 1e-300}};
  const RunResult back = run_result_from_json(Json::parse(to_json(result).dump()));
  EXPECT_EQ(back.alarm_count, 7);
  ASSERT_EQ(back.alarms.size(), 3U);
  EXPECT_EQ(back.alarms[0].guard, Guard::nonfinite);
  EXPECT_EQ(back.alarms[0].step, 12);
  EXPECT_EQ(back.alarms[0].rank, 1);
  EXPECT_EQ(back.alarms[0].tensor, "model/0.weight");
  EXPECT_EQ(back.alarms[0].value, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(back.alarms[1].value));
  EXPECT_EQ(back.alarms[2].value, 0.1);
  EXPECT_EQ(back.alarms[2].limit, 1e-300);
}

TEST(RunRequest, GivesBackWhichRanksFailAndHowTheRunGoesOn) {
  RunRequest request;
  request.faults = std::vector{ProcessFault{1, 7, TrainingPhase::reduce, 2, FailureMode::stop}};
  request.recovery = RecoverySpec{.kind = RecoveryKind::spare, .spares = 1, .forget = {Structure::optimizer}};
  const RunRequest back = Json::parse(to_json(request).dump()).get<RunRequest>();
  EXPECT_EQ(back.faults, request.faults);
  EXPECT_EQ(back.recovery, request.recovery);
  EXPECT_FALSE(to_json(RunRequest{}).contains("recovery"));
}

TEST(RecoverySpec, PromisesTheGoldenResultUnlessItDropsSomething) {
  EXPECT_FALSE(RecoverySpec{}.promises_golden());
  EXPECT_TRUE(RecoverySpec{.kind = RecoveryKind::shrink}.promises_golden());
  EXPECT_TRUE(RecoverySpec{.kind = RecoveryKind::relaunch}.promises_golden());
  EXPECT_FALSE((RecoverySpec{.kind = RecoveryKind::shrink, .batch = BatchRule::smaller}.promises_golden()));
  EXPECT_FALSE((RecoverySpec{.kind = RecoveryKind::spare, .forget = {Structure::rng}}.promises_golden()));
}

TEST(Alarm, OfAnUnknownGuardIsRefused) {
  Json value = to_json(Alarm{});
  value["guard"] = "watchdog";
  EXPECT_THROW((void)value.get<Alarm>(), Error);
}

}  // namespace
}  // namespace bitrift::record::run_test
