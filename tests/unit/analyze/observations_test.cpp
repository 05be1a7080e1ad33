#include "analyze/observations.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::observations_test {
namespace {

using record::TrialKind;
using record::TrialRecord;
using ::testing::HasSubstr;

design::CampaignSpec spec() {
  design::CampaignSpec spec;
  spec.arms = {{"serial", {}}};
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  return spec;
}

TrialRecord trial(std::uint64_t draw, double accuracy) {
  TrialRecord row = testing::finished(TrialKind::trial, "serial", "weight.sign", draw,
                                      {{testing::evaluation(1, 0.1, 0.97, 0.2, accuracy)}}, "other");
  row.stratum_bits = 100;
  return row;
}

const StratumSeen& seen_in(const Observations& seen) { return seen.cells.at({"serial", "weight.sign"}); }

TEST(Observations, LossesOfAccuracyAreAgainstTheGoldenRun) {
  auto rows = testing::clean_arm("serial");  // golden accuracy 0.95
  rows.push_back(trial(0, 0.93));
  rows.push_back(trial(1, 0.96));
  rows.push_back(trial(2, 0.5));
  rows.back().result->status = record::RunStatus::nonfinite;
  rows.push_back(trial(3, 0.5));
  rows.back().result.reset();
  rows.back().failure = record::Failure{record::FailureReason::hang, "", 0};
  const Observations seen = observe(rows, spec());
  const auto& losses = seen_in(seen).accuracy_losses;
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_NEAR(*losses[0], 0.02, 1e-12);
  EXPECT_NEAR(*losses[1], -0.01, 1e-12);
  EXPECT_FALSE(losses[2]);
  EXPECT_FALSE(losses[3]);
}

TEST(Observations, RanksAreOfTrialsThatMetricsDecided) {
  auto rows = testing::clean_arm("serial");  // clean accuracies 0.950, 0.949, ..., 0.931
  rows.push_back(trial(0, 0.5));
  rows.push_back(trial(1, 0.95));
  rows.push_back(trial(2, 0.95));
  rows.back().result->final_digest = rows.back().result->replica_digests[0] = "golden";
  const Observations seen = observe(rows, spec());
  EXPECT_EQ(seen_in(seen).ranks[0], 1U);
  EXPECT_GT(seen_in(seen).ranks[1], 15U);
  EXPECT_EQ(seen_in(seen).ranks[2], 0U);
}

TEST(Observations, RowsBehindAGapWait) {
  auto rows = testing::clean_arm("serial");
  for (const std::uint64_t draw : {3U, 1U, 0U}) rows.push_back(trial(draw, 0.95));
  const Observations seen = observe(rows, spec());
  EXPECT_EQ(seen_in(seen).trials(), 2U);
  EXPECT_EQ(seen_in(seen).accuracy_losses.size(), 2U);
  EXPECT_EQ(seen_in(seen).waiting, 1U);
}

TEST(Observations, ATrialThatDidNotLandIsRefused) {
  auto rows = testing::clean_arm("serial");
  rows.push_back(trial(0, 0.95));
  rows.back().landed = false;
  try {
    (void)observe(rows, spec());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_THAT(error.what(), HasSubstr("serial/weight.sign/0"));
  }
}

TEST(Observations, CleanRunsThatContradictTheLevelForbidRates) {
  auto rows = testing::clean_arm("serial");
  for (std::uint64_t i = 0; i < 30; ++i) {
    rows.push_back(trial(i, 0.5));
    rows.back().kind = TrialKind::jitter;
    rows.back().id.stratum = "jitter";
  }
  try {
    (void)observe(rows, spec());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("30 of 30"));
  }
}

}  // namespace
}  // namespace bitrift::analyze::observations_test
