#include "analyze/views/recovery_times.h"

#include <gmock/gmock.h>

#include "unit/analyze/rows.h"

namespace bitrift::analyze::recovery_times_test {
namespace {

using record::FailureMode;
using record::ProcessFault;
using record::Recovery;
using record::TrainingPhase;
using record::TrialRecord;
using ::testing::HasSubstr;

// A trial in which these ranks failed; each recovery has its times.
TrialRecord trial(const std::vector<int>& victims, const std::vector<record::RecoveryTimes>& recoveries) {
  TrialRecord row = testing::row(record::TrialKind::trial, "arm", "process.update", 0);
  std::vector<ProcessFault> faults;
  for (const int rank : victims) faults.push_back({rank, 5, TrainingPhase::update, 0, FailureMode::kill});
  row.faults = faults;
  row.result = record::RunResult{};
  for (const record::RecoveryTimes& times : recoveries) {
    row.result->recoveries.push_back({.kind = record::RecoveryKind::shrink,
                                      .state = {},
                                      .failed = victims,
                                      .steps_lost = 1,
                                      .steps_redone = 2,
                                      .bytes_moved = 1000,
                                      .times = times});
  }
  return row;
}

std::vector<RecoveryLine> lines_of(const std::vector<TrialRecord>& rows, int stages = 1) {
  std::vector<const TrialRecord*> all;
  for (const TrialRecord& row : rows) all.push_back(&row);
  design::Arm arm;
  arm.name = "arm";
  arm.parallel = {.kind = record::ParallelKind::hybrid, .ranks = 4, .stages = stages};
  return recovery_lines(all, arm, "update", RecoveryPlace::phase);
}

TEST(RecoveryTimes, AreQuantilesOverTrialsInMilliseconds) {
  std::vector<TrialRecord> rows;
  for (const double state : {0.010, 0.040, 0.020, 0.100, 0.030})
    rows.push_back(trial({2}, {{.detect = 0.5, .state = state, .redo = 1}}));
  const auto lines = lines_of(rows);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].arm, "arm");
  EXPECT_EQ(lines[0].trials, 5U);
  // numpy.quantile([10, 20, 30, 40, 100], [0.5, 0.95])
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::state).median, 30);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::state).p95, 88);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::total).median, 1530);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::total).p95, 1588);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::revoke).p95, 0);
}

TEST(RecoveryTimes, OfATrialAddUpOverItsRecoveries) {
  const auto lines =
      lines_of({trial({1}, {{.detect = 0.25, .shrink = 0.5}, {.detect = 0.5, .agree = 0.125}})});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::detect).median, 750);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::agree).median, 125);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::total).median, 1375);
  EXPECT_EQ(lines[0].steps_lost.median, 2);
  EXPECT_EQ(lines[0].steps_redone.most, 4);
  EXPECT_EQ(lines[0].bytes_moved.median, 2000);
}

TEST(RecoveryTimes, WithoutDetectionCountInNoDetectionAndInNoTotal) {
  const auto lines = lines_of({trial({1}, {{.detect = 0.25, .redo = 1}}), trial({1}, {{.redo = 3}}),
                               trial({2}, {{.detect = 9, .redo = 5}, {.redo = 2}})});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].trials, 3U);
  EXPECT_EQ(lines[0].part(RecoveryPart::detect).n, 1U);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::detect).p95, 250);
  EXPECT_EQ(lines[0].part(RecoveryPart::total).n, 1U);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::total).median, 1250);
  EXPECT_EQ(lines[0].part(RecoveryPart::redo).n, 3U);
  EXPECT_DOUBLE_EQ(lines[0].part(RecoveryPart::redo).median, 3000);

  const auto unknown = lines_of({trial({1}, {{.redo = 3}})});
  const record::Json json = to_json(unknown)[0];
  EXPECT_TRUE(json["detect"]["median_ms"].is_null() && json["total"]["p95_ms"].is_null());
  EXPECT_EQ(json["redo"]["median_ms"], 3000);
  const std::string text = recovery_tables(unknown, RecoveryPlace::phase);
  EXPECT_THAT(text, HasSubstr("arm  update  another rank  1  -          0/0"));
  EXPECT_THAT(text, HasSubstr("1000 bytes   1\n"));
}

TEST(RecoveryTimes, AreOfTrialsThatRecoveredOnly) {
  TrialRecord lost = trial({1}, {{.redo = 3}});
  lost.result->status = record::RunStatus::unrecovered;
  TrialRecord dead = trial({1}, {});
  dead.result.reset();
  dead.failure = record::Failure{record::FailureReason::hang, "", 0};
  EXPECT_TRUE(lines_of({lost, dead, trial({1}, {})}).empty());
  EXPECT_EQ(recovery_tables({}, RecoveryPlace::phase), "");
}

TEST(RecoveryTimes, AreSortedByVictimsAndTheirStage) {
  // Ranks of a hybrid run with two stages: 0 and 2 hold stage 0, 1 and 3 stage 1.
  const auto lines = lines_of({trial({3}, {{}}), trial({1}, {{}}), trial({2}, {{}}), trial({0}, {{}}),
                               trial({0, 2}, {{}}), trial({0, 3}, {{}}), trial({1, 2}, {{}})},
                              2);
  ASSERT_EQ(lines.size(), 5U);
  const std::vector<VictimClass> expected = {{Victim::rank_0, {}},
                                             {Victim::rank_0, 0},
                                             {Victim::another, {}},
                                             {Victim::another, 0},
                                             {Victim::another, 1}};
  const std::vector<std::uint64_t> trials = {1, 2, 1, 1, 2};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].victims, expected[i]) << i;
    EXPECT_EQ(lines[i].trials, trials[i]) << i;
  }
  EXPECT_THAT(recovery_tables(lines, RecoveryPlace::phase), HasSubstr("another rank, stage 1"));
  EXPECT_EQ(to_json(lines)[1]["stage"], 0);
  // Where every rank holds the whole model, there is no stage to name.
  EXPECT_EQ(lines_of({trial({3}, {{}})})[0].victims, (VictimClass{Victim::another, {}}));
}

}  // namespace
}  // namespace bitrift::analyze::recovery_times_test
