#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "design/campaign_spec.h"
#include "record/propagation_report.h"
#include "record/run.h"
#include "tests_support.h"
#include "unit/places.h"

namespace bitrift::design::propagation_spec_test {
namespace {

using namespace record;

using ::testing::HasSubstr;
using tests::error_of;

TensorDrift drift_of(const std::string& tensor, double norm) {
  return {.tensor = tensor,
          .replica = {},
          .elements = 10,
          .altered = 3,
          .nonfinite = 0,
          .norm = norm,
          .mean = norm / 2,
          .max = 2 * norm};
}

std::string error_with(const std::vector<std::string>& overrides) {
  const auto quickstart =
      std::filesystem::path(bitrift::testing::source_dir) / "campaigns" / "quickstart.json";
  return error_of([&] { (void)read_campaign_spec(quickstart, overrides); });
}

TEST(Propagation, OfAResultComesBackFromItsLine) {
  RunResult result;
  TensorDrift broken = drift_of("model/b", std::nan(""));
  broken.max = std::numeric_limits<double>::infinity();
  broken.nonfinite = 2;
  broken.replica = 1;
  result.propagation = {{1, {drift_of("model/a", 0.1), broken}}, {22, {}}};
  const RunResult back = run_result_from_json(Json::parse(to_json(result).dump()));
  ASSERT_TRUE(back.propagation);
  ASSERT_EQ(back.propagation->size(), 2U);
  const StepDrift& first = back.propagation->front();
  EXPECT_EQ(first.step, 1);
  ASSERT_EQ(first.tensors.size(), 2U);
  EXPECT_EQ(first.tensors[0].tensor, "model/a");
  EXPECT_EQ(first.tensors[0].norm, 0.1);
  EXPECT_EQ(first.tensors[0].mean, 0.05);
  EXPECT_EQ(first.tensors[0].elements, 10U);
  EXPECT_EQ(first.tensors[0].altered, 3U);
  EXPECT_FALSE(first.tensors[0].replica);
  EXPECT_TRUE(std::isnan(first.tensors[1].norm));
  EXPECT_EQ(first.tensors[1].max, std::numeric_limits<double>::infinity());
  EXPECT_EQ(first.tensors[1].nonfinite, 2U);
  EXPECT_EQ(first.tensors[1].replica, 1);
  EXPECT_EQ(back.propagation->back().step, 22);
  EXPECT_TRUE(back.propagation->back().tensors.empty());
  EXPECT_FALSE(run_result_from_json(to_json(RunResult{})).propagation);
}

TEST(Propagation, WithColumnsOfDifferentLengthsIsRefused) {
  Json value = StepDrift{4, {drift_of("model/a", 1)}};
  value["max"].push_back(3);
  EXPECT_THAT(error_of([&] { (void)value.get<StepDrift>(); }), HasSubstr("after step 4: 'max'"));
}

TEST(Propagation, WhatAllReplicasFoundAlikeIsListedOnce) {
  const auto all = merged({{{1, {drift_of("model/a", 0.5)}}}, {{1, {drift_of("model/a", 0.5)}}}});
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].tensors.size(), 1U);
  EXPECT_FALSE(all[0].tensors[0].replica);
}

TEST(Propagation, WhatReplicasFoundDifferentlyIsListedForEachInWhichItDiffers) {
  const auto all = merged({{{1, {drift_of("model/b", 0.5), drift_of("model/c", 1)}}, {2, {}}},
                           {{1, {drift_of("model/a", 9), drift_of("model/b", 0.25)}}, {2, {}}},
                           {{1, {drift_of("model/b", 0.5)}}, {2, {}}}});
  ASSERT_EQ(all.size(), 2U);
  std::vector<std::string> found;
  for (const TensorDrift& tensor : all[0].tensors)
    found.push_back(fmt::format("{} {} {}", tensor.tensor, tensor.replica.value_or(-1), tensor.norm));
  EXPECT_THAT(found, ::testing::ElementsAre("model/a 1 9", "model/b 0 0.5", "model/b 1 0.25", "model/b 2 0.5",
                                            "model/c 0 1"));
  EXPECT_TRUE(all[1].tensors.empty());
}

TEST(Propagation, OfOneReplicaNamesNone) {
  const auto all = merged({{{0, {drift_of("model/a", 0.5)}}}});
  EXPECT_FALSE(all[0].tensors[0].replica);
  EXPECT_FALSE(Json(all[0]).contains("replica"));
}

TEST(Propagation, StandsInASpecInAnyOrderAndComesBackSorted) {
  const auto quickstart =
      std::filesystem::path(bitrift::testing::source_dir) / "campaigns" / "quickstart.json";
  const CampaignSpec spec = read_campaign_spec(
      quickstart, {R"(propagation={"steps": [22, 0, 5], "every": 50, "optimizer": true, "memory_mib": 7})"});
  const CampaignSpec back = campaign_spec_from_json(to_json(spec));
  ASSERT_TRUE(back.propagation);
  EXPECT_THAT(back.propagation->steps, ::testing::ElementsAre(0, 5, 22));
  EXPECT_TRUE(back.propagation->at_end);
  EXPECT_TRUE(back.propagation->optimizer);
  EXPECT_EQ(back.propagation->memory_mib, 7);
  EXPECT_TRUE(back.propagation->wants_draw(100));
  EXPECT_FALSE(back.propagation->wants_draw(99));
  EXPECT_FALSE(campaign_spec_from_json(to_json(read_campaign_spec(quickstart))).propagation);
}

TEST(Propagation, ThatComparesNothingIsRefused) {
  EXPECT_THAT(error_with({R"(propagation={"final": false})"}),
              HasSubstr("--set propagation: nothing to compare"));
}

TEST(Propagation, IsRefusedByKeyWhereItMakesNoSense) {
  EXPECT_THAT(error_with({R"(propagation={"steps": [-1]})"}), HasSubstr("propagation.steps[0]"));
  EXPECT_THAT(error_with({R"(propagation={"steps": [3, 3]})"}), HasSubstr("3 occurs twice"));
  EXPECT_THAT(error_with({R"(propagation={"every": 0})"}), HasSubstr("propagation.every"));
  EXPECT_THAT(error_with({R"(propagation={"layers": 1})"}), HasSubstr("propagation.layers: unknown key"));
  EXPECT_THAT(error_with({R"(propagation={"steps": [1]})", R"(runner={"exec": {"command": ["x"]}})"}),
              HasSubstr("propagation: compares states within bitrift-train"));
}

}  // namespace
}  // namespace bitrift::design::propagation_spec_test
