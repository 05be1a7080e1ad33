#include "analyze/guards/detectors_view.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "core/error.h"
#include "record/stratum_name.h"
#include "tests_support.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::detectors_view_test {
namespace {

using record::OutcomeClass;
using record::TrialKind;
using record::TrialRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

design::CampaignSpec spec_of() {
  design::CampaignSpec spec = testing::spec_of({"plain", "guarded"});
  spec.arms[1].guards = record::GuardSpec{.nonfinite = true};
  return spec;
}

TrialRecord& alarm(TrialRecord& row, std::int64_t step) {
  if (!row.result) row.result = record::RunResult{};
  row.result->alarms = {{record::Guard::nonfinite, step, 0, "", 0, 0}};
  row.result->alarm_count = 1;
  return row;
}

// Both arms: 4 masked, 3 SDCs and 3 crashes in weight.sign, then 2 masked in bias.exponent. The guard notices
// a masked trial, one SDC, and all crashes.
std::vector<TrialRecord> rows() {
  std::vector<TrialRecord> all;
  for (const char* arm : {"plain", "guarded"}) {
    for (TrialRecord& row : testing::clean_arm(arm)) all.push_back(std::move(row));
    testing::add_trials(all, arm, "weight.sign", 1000, 4, 3, 3);
    testing::add_trials(all, arm, "bias.exponent", 800, 2, 0, 0);
  }
  for (TrialRecord& row : all) {
    if (row.result) row.result->seconds = row.id.arm == "plain" ? 2 : 3;
    if (row.id.arm != "guarded" || row.id.stratum != "weight.sign") continue;
    if (row.id.draw == 0 || row.id.draw == 4) alarm(row, 110);
    if (row.id.draw >= 7) alarm(row, 101);
  }
  return all;
}

Scoreboard board_of(const std::vector<TrialRecord>& all, const design::CampaignSpec& spec = spec_of()) {
  return scoreboard_of(all, spec, trust_of(all, judging_of(spec)), {{"plain", 100}, {"guarded", 100}});
}

TEST(Scoreboard, CountsStepsToAnAlarmFromTheStepThatIsStruck) {
  auto all = rows();
  for (TrialRecord& row : all) {
    if (row.kind != record::TrialKind::trial || row.id.stratum != "weight.sign") continue;
    row.faults = std::vector{record::ComputeFault{.tensor = "fc", .step = 9}};
    if (row.id.arm == "guarded" && row.id.draw >= 7) alarm(row, 109);
  }
  const Scoreboard board = board_of(all);
  EXPECT_EQ(board.detectors[0].median_steps, 1);
  EXPECT_EQ(board.detectors[0].most_steps, 2);
}

TEST(Scoreboard, CountsAlarmsByTheOutcomeOfTheSameFaultWithoutTheGuard) {
  auto all = rows();
  // With on_alarm: stop the guarded trial ends as a crash; what counts is the SDC that it would have been.
  for (TrialRecord& row : all) {
    if (row.id.arm == "guarded" && row.id.stratum == "weight.sign" && row.id.draw == 4)
      row.result->status = record::RunStatus::rejected;
  }
  const Scoreboard board = board_of(all);
  ASSERT_EQ(board.detectors.size(), 1U);
  const Detector& guard = board.detectors[0];
  EXPECT_EQ(guard.arm, "guarded");
  EXPECT_EQ(guard.beside, "plain");
  const auto share = [](const Share& one) { return std::vector<std::uint64_t>{one.count, one.runs}; };
  EXPECT_THAT(share(guard.all.at(OutcomeClass::masked)), ElementsAre(1, 6));
  EXPECT_THAT(share(guard.all.at(OutcomeClass::sdc)), ElementsAre(1, 3));
  EXPECT_THAT(share(guard.all.at(OutcomeClass::crash)), ElementsAre(3, 3));
  EXPECT_THAT(share(guard.fields.at("sign").at(OutcomeClass::masked)), ElementsAre(1, 4));
  EXPECT_THAT(share(guard.fields.at("exponent").at(OutcomeClass::masked)), ElementsAre(0, 2));
  // SciPy: beta.ppf(0.025, 1, 3), beta.ppf(0.975, 2, 2)
  EXPECT_NEAR(guard.all.at(OutcomeClass::sdc).interval.low, 0.008403759, 1e-8);
  EXPECT_NEAR(guard.all.at(OutcomeClass::sdc).interval.high, 0.9057007, 1e-6);
}

TEST(Scoreboard, MeasuresFalseAlarmsOnCleanRunsOfDifferentOrders) {
  auto all = rows();
  const Detector quiet = board_of(all).detectors[0];
  // One golden run, whose repetition is the same run, and 20 envelope runs.
  EXPECT_EQ(quiet.clean.runs, 21U);
  EXPECT_EQ(quiet.clean.count, 0U);
  // 1 - 0.025^(1/21), Clopper and Pearson's limit for no success.
  EXPECT_NEAR(quiet.clean.interval.high, 1 - std::pow(0.025, 1.0 / 21), 1e-12);
  for (TrialRecord& row : all) {
    if (row.id.arm == "guarded" && row.kind == TrialKind::envelope && row.id.draw == 3) alarm(row, 102);
    if (row.id.arm == "guarded" && row.kind == TrialKind::canary) alarm(row, 102);
  }
  EXPECT_EQ(board_of(all).detectors[0].clean.count, 1U);
}

TEST(Scoreboard, MeasuresStepsFromTheResumeAndTheCostOfAStep) {
  const Detector guard = board_of(rows()).detectors[0];
  // Crashes after 1 step, the SDC after 10; the masked trial does not count.
  EXPECT_EQ(guard.median_steps, 1);
  EXPECT_EQ(guard.most_steps, 10);
  EXPECT_DOUBLE_EQ(guard.step_seconds.value(), 3.0 / 20);
  EXPECT_DOUBLE_EQ(guard.cost.value(), 1.5);
  const auto all = rows();
  const Scoreboard unknown = scoreboard_of(all, spec_of(), trust_of(all, judging_of(spec_of())), {});
  EXPECT_FALSE(unknown.detectors[0].median_steps);
}

TEST(Scoreboard, ARunThatOnlyTheGuardRejectsIsNoticed) {
  auto all = rows();
  for (TrialRecord& row : all) {
    const bool both = row.kind == TrialKind::trial && row.id.draw == 9;
    const bool guarded = row.id.arm == "guarded" && row.kind == TrialKind::trial && row.id.draw == 5;
    if (!both && !guarded) continue;
    row.result = record::RunResult{};
    row.result->status = record::RunStatus::rejected;
  }
  const Detector guard = board_of(all).detectors[0];
  EXPECT_EQ(guard.all.at(OutcomeClass::sdc).count, 2U);
  // A file that no arm can read says nothing about the guard.
  EXPECT_EQ(guard.all.at(OutcomeClass::crash).count, 2U);
  EXPECT_EQ(guard.all.at(OutcomeClass::crash).runs, 3U);
  EXPECT_EQ(guard.median_steps, 1);  // of 0, 1, 1, 10
}

TEST(Scoreboard, OnlyDrawsThatBothArmsHaveCount) {
  auto all = rows();
  std::erase_if(all, [](const TrialRecord& row) {
    return row.kind == TrialKind::trial && row.id.arm == "plain" && row.id.stratum == "weight.sign" &&
           row.id.draw == 5;
  });
  const Detector guard = board_of(all).detectors[0];
  EXPECT_EQ(guard.all.at(OutcomeClass::sdc).runs, 1U);
  EXPECT_EQ(guard.all.at(OutcomeClass::crash).runs, 0U);
  EXPECT_TRUE(to_json(board_of(all))["detectors"][0]["outcomes"]["crash"]["share"].is_null());
}

TEST(Scoreboard, AnArmIsComparedWithOneThatIsLikeItInEverythingElse) {
  design::CampaignSpec spec = spec_of();
  spec.arms[1].parallel = {.kind = record::ParallelKind::data, .ranks = 2};
  const auto all = rows();
  EXPECT_THAT(tests::error_of([&] { (void)board_of(all, spec); }),
              HasSubstr("add an arm without guards that has the strategy, scope and precision of guarded"));
  spec.arms[1].guards.reset();
  EXPECT_THAT(tests::error_of([&] { (void)board_of(all, spec); }), HasSubstr("docs/detectors.md"));
}

// Draws of the plain arm: 5 masked, 3 SDCs, 2 crashes. Of the guarded one: 4 masked, one SDC, 4 masked, one
// crash.
TEST(Scoreboard, SaysWhatGuardsThatActMadeOfTheSameFaults) {
  design::CampaignSpec spec = spec_of();
  spec.arms[1].guards->on_alarm = record::OnAlarm::rollback;
  std::vector<TrialRecord> all;
  for (const char* arm : {"plain", "guarded"}) {
    for (TrialRecord& row : testing::clean_arm(arm)) all.push_back(std::move(row));
  }
  testing::add_trials(all, "plain", "weight.sign", 1000, 5, 3, 2);
  std::vector<TrialRecord> guarded;
  testing::add_trials(guarded, "guarded", "weight.sign", 1000, 8, 1, 1);
  std::swap(guarded[4].result, guarded[8].result);
  const auto golden = std::ranges::find_if(all, [](const TrialRecord& row) {
    return row.id == record::TrialId{"plain", record::control_stratum(0), 0};
  });
  guarded[5].result->replicas = golden->result->replicas;  // an SDC without the guard
  guarded[6].result->replicas[0][0].test_loss = *golden->result->replicas[0][0].test_loss + 1e-12;
  all.insert(all.end(), guarded.begin(), guarded.end());
  std::size_t acted = 0;
  for (TrialRecord& row : all) {
    if (row.id.arm == "guarded" && row.kind == TrialKind::envelope && acted < 2) {
      row.result->guard_action_count = 1;
      ++acted;
    }
  }
  const Scoreboard board = board_of(all, spec);
  const GuardActions actions = board.detectors[0].actions.value();
  const auto share = [](const Share& one) { return std::vector<std::uint64_t>{one.count, one.runs}; };
  EXPECT_THAT(share(actions.recovered.at(OutcomeClass::sdc)), ElementsAre(3, 3));
  EXPECT_THAT(share(actions.recovered.at(OutcomeClass::crash)), ElementsAre(1, 2));
  EXPECT_GE(actions.exactly.at(OutcomeClass::sdc).count, 1U);
  EXPECT_LT(actions.exactly.at(OutcomeClass::sdc).count, 3U);
  EXPECT_THAT(share(actions.harmed), ElementsAre(1, 5));
  EXPECT_THAT(share(actions.clean_acted), ElementsAre(2, 21));
  EXPECT_THAT(share(actions.clean_harmed), ElementsAre(0, 21));
  EXPECT_THAT(table(board), HasSubstr("guarded (rollback)  3/3 100.0 [29.2, 100.0]"));
  EXPECT_EQ(to_json(board)["detectors"][0]["actions"]["harmed"]["count"], 1);
  spec.arms[1].guards->on_alarm = record::OnAlarm::record;
  EXPECT_FALSE(board_of(all, spec).detectors[0].actions);
}

TEST(Scoreboard, TheTableGivesCountsSharesAndIntervals) {
  const std::string text = table(board_of(rows()));
  EXPECT_THAT(text, HasSubstr("guarded   1/3 33.3 [0.8, 90.6]"));
  EXPECT_THAT(text, HasSubstr("3/3 100.0 [29.2, 100.0]"));
  EXPECT_THAT(text, HasSubstr("0/21 0.0 [0.0, 16.1]"));
  EXPECT_THAT(text, HasSubstr("1.5x"));
}

}  // namespace
}  // namespace bitrift::analyze::detectors_view_test
