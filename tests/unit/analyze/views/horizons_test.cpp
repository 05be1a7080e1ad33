#include "analyze/views/horizons.h"

#include <gmock/gmock.h>

#include "analyze/views/metrics_view.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::horizons_test {
namespace {

using record::OutcomeClass;
using record::TrialKind;
using record::TrialRecord;
using ::testing::HasSubstr;

Trajectory run_with(const std::vector<double>& accuracies) {
  Trajectory run;
  for (std::size_t e = 0; e < accuracies.size(); ++e)
    run.push_back(testing::evaluation(static_cast<std::int64_t>(e + 1), 0.1, 0.97, 0.2, accuracies[e]));
  return run;
}

// An arm whose runs have three evaluations.
std::vector<TrialRecord> three_epochs() {
  std::vector<TrialRecord> rows = testing::clean_arm("serial");
  for (TrialRecord& row : rows) {
    if (!row.result || row.result->replicas.empty() || row.result->replicas[0][0].step == 0) continue;
    Trajectory& run = row.result->replicas[0];
    for (std::int64_t epoch = 2; epoch <= 3; ++epoch) {
      run.push_back(run.front());
      run.back().epoch += epoch - 1;
      run.back().step = epoch * testing::kStepsPerEpoch;
    }
  }
  return rows;
}

void add(std::vector<TrialRecord>& rows, const Trajectory& run) {
  std::uint64_t draw = 0;
  for (const TrialRecord& row : rows) draw += row.kind == TrialKind::trial ? 1 : 0;
  rows.push_back(testing::finished(TrialKind::trial, "serial", "weight.sign", draw, {run}, "other"));
}

TEST(Horizons, EveryEvaluationHasALineAndLateCrashesAreCountedAsSuch) {
  auto rows = three_epochs();
  add(rows, run_with({0.95, 0.95, 0.95}));
  add(rows, run_with({0.5, 0.95, 0.95}));  // recovers
  add(rows, run_with({0.95, 0.95, 0.5}));  // late
  add(rows, run_with({0.95, 0.95}));       // dies in the third epoch
  rows.back().result->status = record::RunStatus::nonfinite;
  const auto lines = horizons_of(rows, Judging{});
  ASSERT_EQ(lines.size(), 3U);
  const std::uint64_t expected[3][4] = {{3, 1, 0, 3}, {4, 0, 0, 2}, {2, 1, 1, 0}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i].horizon, i + 1);
    EXPECT_EQ(lines[i].step, static_cast<std::int64_t>(i + 1) * testing::kStepsPerEpoch);
    EXPECT_EQ(lines[i].counts.at(OutcomeClass::masked), expected[i][0]) << i;
    EXPECT_EQ(lines[i].counts.at(OutcomeClass::sdc), expected[i][1]) << i;
    EXPECT_EQ(lines[i].counts.at(OutcomeClass::crash), expected[i][2]) << i;
    EXPECT_EQ(lines[i].moving, expected[i][3]) << i;
  }
  EXPECT_THAT(table(lines), HasSubstr("moving"));
  EXPECT_EQ(to_json(lines).at(2).at("counts").at("crash"), 1);
}

TEST(MetricsView, EachMetricIsJudgedByItself) {
  auto rows = testing::clean_arm("serial");
  design::CampaignSpec spec;
  spec.arms = {{"serial", {}}};
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  add(rows, run_with({0.5}));
  add(rows, run_with({0.95}));
  rows.back().result->replicas[0][0].test_loss = 1e30;
  add(rows, run_with({0.95}));
  rows.back().result->status = record::RunStatus::nonfinite;
  const auto lines = metrics_view(rows, spec, trust_of(rows, Judging{}), {"strategy"});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].trials, 3U);
  EXPECT_EQ(lines[0].crashes, 1U);
  EXPECT_EQ(lines[0].outside.at(record::Metric::test_accuracy), 1U);
  EXPECT_EQ(lines[0].outside.at(record::Metric::test_loss), 1U);
  EXPECT_EQ(lines[0].outside.at(record::Metric::test_capped_loss), 0U);
  EXPECT_EQ(lines[0].outside.at(record::Metric::train_loss), 0U);
  // Rows of earlier versions lack the capped loss.
  for (TrialRecord& row : rows) {
    if (!row.result) continue;
    for (auto& replica : row.result->replicas) {
      for (auto& evaluation : replica) evaluation.test_capped_loss.reset();
    }
  }
  Judging accuracy;
  accuracy.metrics = {record::Metric::test_accuracy};
  const auto old = metrics_view(rows, spec, trust_of(rows, accuracy), {"strategy"});
  EXPECT_EQ(old[0].outside.at(record::Metric::test_capped_loss), std::nullopt);
  EXPECT_THAT(metrics_table(old, {Dimension::strategy}), HasSubstr(" - "));
}

}  // namespace
}  // namespace bitrift::analyze::horizons_test
