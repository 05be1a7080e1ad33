#include "analyze/views/study_view.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::study_view_test {
namespace {

using record::TrialKind;
using record::TrialRecord;
using testing::clean_arm;
using ::testing::HasSubstr;

design::CampaignSpec spec() {
  design::CampaignSpec spec;
  spec.arms = {{"serial", {}}};
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  return spec;
}

TrialRecord with_accuracy(std::uint64_t draw, double accuracy) {
  TrialRecord row = testing::finished(TrialKind::trial, "serial", "weight.sign", draw,
                                      {{testing::evaluation(1, 0.1, 0.97, 0.2, accuracy)}}, "other");
  row.stratum_bits = 100;
  return row;
}

// Golden accuracy is 0.95.
std::vector<TrialRecord> study() {
  std::vector<TrialRecord> rows = clean_arm("serial");
  for (const double accuracy : {0.95, 0.95, 0.96, 0.9000001, 0.89, 0.1})
    rows.push_back(with_accuracy(rows.size() - clean_arm("serial").size(), accuracy));
  rows.push_back(with_accuracy(6, 0.95));
  rows.back().result->status = record::RunStatus::nonfinite;
  rows.push_back(with_accuracy(7, 0.95));
  rows.back().result.reset();
  rows.back().failure = record::Failure{record::FailureReason::signal, "Segmentation fault", 11};
  return rows;
}

std::vector<StudyLine> view(const std::vector<TrialRecord>& rows, const std::vector<std::string>& by = {}) {
  return study_view(rows, spec(), trust_of(rows, Judging{}), by);
}

TEST(StudyView, EveryTrialGetsOneWord) {
  const StudyLine line = view(study(), {"field"}).at(0);
  EXPECT_EQ(line.key.at("arm"), "serial");
  EXPECT_EQ(line.trials, 8U);
  EXPECT_EQ(line.unchanged, 2U);
  EXPECT_EQ(line.nan, 1U);
  EXPECT_EQ(line.reduced, 2U);
  EXPECT_EQ(line.wrong, 2U);
  EXPECT_EQ(line.other, 1U);
  EXPECT_DOUBLE_EQ(line.golden, 0.95);
}

TEST(StudyView, ABitwiseEqualTrialNeedsNoAccuracy) {
  std::vector<TrialRecord> rows = study();
  TrialRecord& row = *std::ranges::find(rows, TrialKind::trial, &TrialRecord::kind);
  row.result = rows.front().result;  // of a golden run
  row.result->replicas.back().back().test_accuracy.reset();
  const StudyLine line = view(rows, {"field"}).at(0);
  EXPECT_EQ(line.trials, 8U);
  EXPECT_EQ(line.unchanged, 2U);
}

// Checked with numpy: mean, std(ddof=1) of the six accuracies.
TEST(StudyView, MeanDeviationAndVariationAreOfTrialsWithAnAccuracy) {
  const StudyLine line = view(study()).at(0);
  EXPECT_NEAR(line.mean, 0.7916666833333333, 1e-15);
  EXPECT_NEAR(line.deviation, 0.3400833294944074, 1e-15);
  EXPECT_NEAR(line.variation, 0.4295789334754845, 1e-15);
}

TEST(StudyView, RowsBehindAGapDoNotCountAndOrderDoesNotMatter) {
  std::vector<TrialRecord> rows = study();
  const StudyLine whole = view(rows).at(0);
  rows.push_back(with_accuracy(9, 0.5));  // 8 is missing
  std::reverse(rows.begin(), rows.end());
  const StudyLine line = view(rows).at(0);
  EXPECT_EQ(line.trials, 8U);
  EXPECT_EQ(line.mean, whole.mean);
  EXPECT_EQ(line.deviation, whole.deviation);
}

TEST(StudyView, WithoutAnyAccuracyThereAreNoMoments) {
  std::vector<TrialRecord> rows = clean_arm("serial");
  rows.push_back(with_accuracy(0, 0.95));
  rows.back().result->status = record::RunStatus::nonfinite;
  const auto lines = view(rows);
  EXPECT_TRUE(std::isnan(lines.at(0).mean) && std::isnan(lines.at(0).deviation));
  EXPECT_THAT(study_table(lines, {Dimension::strategy}), HasSubstr("100.0"));
  EXPECT_EQ(to_json(lines).at(0).at("accuracy").at("mean"), "NaN");
}

}  // namespace
}  // namespace bitrift::analyze::study_view_test
