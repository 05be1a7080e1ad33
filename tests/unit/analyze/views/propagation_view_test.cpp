#include "analyze/views/propagation_view.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_support.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::propagation_view_test {
namespace {

using ::testing::HasSubstr;

record::TensorDrift drift(const std::string& tensor, double norm, std::uint64_t altered = 5) {
  return {.tensor = tensor,
          .replica = {},
          .elements = 10,
          .altered = altered,
          .nonfinite = std::isfinite(norm) ? 0U : 1U,
          .norm = norm,
          .mean = norm,
          .max = norm};
}

design::CampaignSpec spec(std::uint64_t every = 1) {
  design::CampaignSpec spec;
  spec.name = "by hand";
  spec.propagation = record::PropagationSpec{.steps = {1}, .every = every};
  return spec;
}

// A trial with these tensors after step 1 and none after step 20.
record::TrialRecord trial(std::uint64_t draw, const std::vector<record::TensorDrift>& tensors) {
  record::TrialRecord row = testing::row(record::TrialKind::trial, "serial", "weight.sign", draw);
  row.result = record::RunResult{};
  row.result->propagation = {{1, tensors}, {20, {}}};
  return row;
}

TEST(PropagationTable, GivesSharesMediansAndMaximaOfTheTrialsThatReachedAStep) {
  auto rows = testing::clean_arm("serial");
  rows.push_back(trial(0, {drift("model/fc2", 1, 4)}));
  rows.push_back(trial(1, {drift("model/fc10", 7), drift("model/fc2", 3, 8)}));
  rows.push_back(trial(2, {drift("model/fc2", std::nan(""), 6)}));
  rows.push_back(trial(3, {}));
  rows.push_back(testing::row(record::TrialKind::trial, "serial", "weight.sign", 4));
  rows.back().failure = record::Failure{record::FailureReason::signal, "", 6};
  const Propagation found = propagation_of(rows, spec(), false);
  ASSERT_EQ(found.groups.size(), 2U);
  const ReachGroup& first = found.groups[0];
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.trials, 4U);
  EXPECT_EQ(first.equal, 1U);
  EXPECT_EQ(first.ended, 1U);
  ASSERT_EQ(first.tensors.size(), 2U);
  EXPECT_EQ(first.tensors[0].tensor, "model/fc2");
  EXPECT_EQ(first.tensors[0].trials, 3U);
  EXPECT_EQ(first.tensors[0].nonfinite, 1U);
  EXPECT_EQ(first.tensors[0].median_norm, 3);
  EXPECT_EQ(first.tensors[0].max_norm, std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(first.tensors[0].mean_altered, 0.6);
  EXPECT_EQ(first.tensors[1].tensor, "model/fc10");
  EXPECT_EQ(found.groups[1].step, 20);
  EXPECT_EQ(found.groups[1].equal, 4U);
  EXPECT_THAT(table(found), HasSubstr("step 1: 4 trials reached it, 1 equal the golden run; 1 ended before"));
}

TEST(PropagationTable, TakesTheWorstReplicaOfATrial) {
  auto rows = testing::clean_arm("serial");
  std::vector<record::TensorDrift> both = {drift("model/a", 2, 9), drift("model/a", 5, 1)};
  both[0].replica = 0;
  both[1].replica = 1;
  rows.push_back(trial(0, both));
  const Propagation found = propagation_of(rows, spec(), false);
  EXPECT_EQ(found.groups[0].tensors[0].trials, 1U);
  EXPECT_EQ(found.groups[0].tensors[0].median_norm, 5);
  EXPECT_DOUBLE_EQ(found.groups[0].tensors[0].mean_altered, 0.9);
}

TEST(PropagationTable, LeavesOutRowsBehindAGapAndDrawsThatRecordNothing) {
  auto rows = testing::clean_arm("serial");
  for (const std::uint64_t draw : {0U, 1U, 2U, 3U, 5U}) rows.push_back(trial(draw, {drift("model/a", 1)}));
  rows[rows.size() - 4].result->propagation.reset();
  rows[rows.size() - 2].result->propagation.reset();
  const Propagation found = propagation_of(rows, spec(2), false);
  EXPECT_EQ(found.groups[0].trials, 2U);
  EXPECT_EQ(found.groups[0].ended, 0U);
  EXPECT_EQ(found.waiting, 1U);
}

TEST(PropagationTable, IsMadeForEachTensorThatHeldTheFault) {
  auto rows = testing::clean_arm("serial");
  for (const std::uint64_t draw : {0U, 1U, 2U}) {
    rows.push_back(trial(draw, {drift("model/a", static_cast<double>(draw))}));
    record::AppliedFault fault;
    fault.tensor = draw == 1 ? "model/x" : "model/w";
    rows.back().faults = record::compact({fault});
  }
  rows.push_back(trial(3, {}));
  rows.back().faults =
      record::compact({rows[rows.size() - 2].faults.bits().at(0), rows[rows.size() - 3].faults.bits().at(0)});
  const Propagation found = propagation_of(rows, spec(), true);
  ASSERT_EQ(found.groups.size(), 6U);
  EXPECT_EQ(found.groups[0].origin, "2 tensors");
  EXPECT_EQ(found.groups[2].origin, "model/w");
  EXPECT_EQ(found.groups[2].trials, 2U);
  EXPECT_EQ(found.groups[4].origin, "model/x");
  EXPECT_EQ(to_json(found)["groups"][4]["origin"], "model/x");
}

TEST(PropagationTable, OfACampaignThatRecordsNoneIsRefused) {
  design::CampaignSpec none = spec();
  none.propagation.reset();
  EXPECT_THAT(tests::error_of([&] { (void)propagation_of({}, none, false); }),
              HasSubstr("records no propagation"));
}

}  // namespace
}  // namespace bitrift::analyze::propagation_view_test
