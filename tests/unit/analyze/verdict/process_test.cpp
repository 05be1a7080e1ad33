// Runs in which ranks fail: their outcomes, and the canaries of such a campaign.
#include <algorithm>

#include <gmock/gmock.h>
#include <signal.h>

#include "analyze/verdict/canaries.h"
#include "analyze/verdict/classify.h"
#include "analyze/views/trials_view.h"
#include "design/kind/run/process_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::process_test {
namespace {

using record::FailureMode;
using record::FailureReason;
using record::Outcome;
using record::OutcomeClass;
using record::ProcessFault;
using record::Reason;
using record::RecoveryKind;
using record::RecoverySpec;
using record::RunStatus;
using record::TrainingPhase;
using record::TrialKind;
using record::TrialRecord;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using testing::finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<TrialRecord>;

Judging judging(const RecoverySpec& recovery) {
  Judging judging;
  judging.level = 0.05;
  judging.strata = design::ProcessStrata{};
  judging.recoveries = {{"data", recovery}};
  return judging;
}

const RecoverySpec spare = {.kind = RecoveryKind::spare, .spares = 1};

// Rank 1 was to fail, and the run ended in this state.
TrialRecord process_row(TrialKind kind, const std::string& stratum, const std::string& digest) {
  TrialRecord row = finished(kind, "data", stratum, 0, {{evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, digest);
  row.faults = std::vector<ProcessFault>{{1, 5, TrainingPhase::backward, 2, FailureMode::kill}};
  return row;
}

TrialRecord recovered(TrialKind kind, const std::string& stratum, const std::string& digest) {
  TrialRecord row = process_row(kind, stratum, digest);
  row.result->recoveries = {{.kind = RecoveryKind::spare, .state = {}, .failed = {1}}};
  return row;
}

TrialRecord lost(TrialKind kind, const std::string& stratum, FailureReason reason, int signal) {
  TrialRecord row = process_row(kind, stratum, "");
  row.result.reset();
  row.failure = record::Failure{reason, "", signal};
  return row;
}

Outcome outcome_of(const TrialRecord& row, const RecoverySpec& recovery = spare) {
  const Judging by = judging(recovery);
  return classify(row, controls_of(clean_arm("data"), by).at("data"), by);
}

TEST(ProcessOutcome, OfARunThatWentOnIsJudgedLikeEveryOther) {
  const Outcome equal = outcome_of(recovered(TrialKind::trial, "process.backward", "golden"));
  EXPECT_EQ(equal.reason, Reason::bitwise);
  EXPECT_TRUE(equal.recovered && equal.bitwise_equal);
  const Outcome other = outcome_of(recovered(TrialKind::trial, "process.backward", "other"));
  EXPECT_EQ(other.reason, Reason::within_noise);
  EXPECT_TRUE(other.recovered);
  TrialRecord worse = recovered(TrialKind::trial, "process.backward", "other");
  worse.result->replicas = {{evaluation(1, 0.1, 0.97, 9, 0.1)}};
  EXPECT_EQ(outcome_of(worse).outcome_class(), OutcomeClass::sdc);
  EXPECT_TRUE(outcome_of(worse).recovered);
  EXPECT_FALSE(outcome_of(process_row(TrialKind::trial, "process.backward", "golden")).recovered);
}

TEST(ProcessOutcome, OfARunThatCouldNotGoOnIsUnrecovered) {
  TrialRecord row = recovered(TrialKind::trial, "process.backward", "other");
  row.result->status = RunStatus::unrecovered;
  row.result->replicas = {{}};
  const Outcome outcome = outcome_of(row);
  EXPECT_EQ(outcome.reason, Reason::unrecovered);
  EXPECT_EQ(outcome.outcome_class(), OutcomeClass::crash);
  EXPECT_FALSE(outcome.recovered);
}

TEST(ProcessOutcome, OfALostWorkerIsUnrecoveredOnlyWhereNothingWasToRecover) {
  const auto killed = lost(TrialKind::trial, "process.backward", FailureReason::signal, SIGKILL);
  EXPECT_EQ(outcome_of(killed, {}).reason, Reason::unrecovered);
  EXPECT_EQ(outcome_of(killed, spare).reason, Reason::signal);
  // Nobody noticed that the rank was gone.
  const auto hung = lost(TrialKind::trial, "process.backward", FailureReason::hang, 0);
  EXPECT_EQ(outcome_of(hung, {}).reason, Reason::hang);
  TrialRecord bits = killed;
  bits.faults = {};
  EXPECT_EQ(outcome_of(bits, {}).reason, Reason::signal);
}

// An arm with all canaries; each behaves.
Rows arm_rows() {
  Rows rows = clean_arm("data");
  TrialRecord unreached = process_row(TrialKind::canary, "canary:unreached", "golden");
  unreached.landed = false;
  rows.push_back(unreached);
  rows.push_back(recovered(TrialKind::canary, "canary:recovers", "golden"));
  rows.push_back(lost(TrialKind::canary, "canary:no-recovery", FailureReason::signal, SIGKILL));
  return rows;
}

template <typename Change>
std::vector<std::string> problems_after(Change&& change, const RecoverySpec& recovery = spare) {
  Rows rows = arm_rows();
  change(rows);
  const Judging by = judging(recovery);
  return canary_problems(rows, controls_of(rows, by), by);
}

TrialRecord& canary(Rows& rows, const std::string& stratum) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const TrialRecord& row) { return row.id.stratum == stratum; });
}

TEST(ProcessCanaries, BehaveOrAreNamed) {
  EXPECT_THAT(problems_after([](Rows&) {}), IsEmpty());
  EXPECT_THAT(problems_after([](Rows& rows) { canary(rows, "canary:unreached").landed = true; }),
              ElementsAre("arm 'data': canary:unreached: a rank failed that was not to"));
  EXPECT_THAT(
      problems_after([](Rows& rows) {
        canary(rows, "canary:unreached").result->recoveries = {{.kind = {}, .state = {}, .failed = {3}}};
      }),
      ElementsAre(HasSubstr("must be bitwise without a recovery, is masked (bitwise) after a recovery")));
  EXPECT_THAT(problems_after([](Rows& rows) { canary(rows, "canary:recovers").landed = false; }),
              ElementsAre(HasSubstr("canary:recovers: the rank that was to fail did not")));
  EXPECT_THAT(
      problems_after([](Rows& rows) { canary(rows, "canary:recovers").result->recoveries = {}; }),
      ElementsAre(HasSubstr("canary:recovers: must be bitwise after a recovery, is masked (bitwise)")));
}

// What the drill forget-state makes of a replacement.
TEST(ProcessCanaries, CatchAReplacementThatForgot) {
  const auto forgot = [](Rows& rows) {
    record::RunResult& result = *canary(rows, "canary:recovers").result;
    result.final_digest = "other";
    result.replica_digests = {"other"};
  };
  EXPECT_THAT(
      problems_after(forgot),
      ElementsAre(HasSubstr(
          "canary:recovers: must be bitwise after a recovery, is masked (within_noise) after a recovery")));
}

TEST(ProcessCanaries, CatchARunThatGoesOnWithoutRecovery) {
  const auto went_on = [](Rows& rows) {
    TrialRecord& row = canary(rows, "canary:no-recovery");
    row = recovered(TrialKind::canary, "canary:no-recovery", "golden");
  };
  EXPECT_THAT(problems_after(went_on),
              ElementsAre(HasSubstr("canary:no-recovery: must be unrecovered, is masked (bitwise)")));
  EXPECT_THAT(problems_after([](Rows& rows) {
                canary(rows, "canary:no-recovery").failure = record::Failure{FailureReason::hang, "", 0};
              }),
              ElementsAre(HasSubstr("must be unrecovered, is crash (hang)")));
}

TEST(ProcessCanaries, AreMissedWhereTheRecoveryOfTheArmAsksForThem) {
  const auto without = [](const char* stratum) {
    return [stratum](Rows& rows) {
      std::erase_if(rows, [&](const TrialRecord& row) { return row.id.stratum == stratum; });
    };
  };
  for (const char* stratum : {"canary:unreached", "canary:recovers", "canary:no-recovery"})
    EXPECT_THAT(problems_after(without(stratum)), ElementsAre(HasSubstr(std::string(stratum) + ": missing")));
  EXPECT_THAT(problems_after(without("canary:recovers"), {}), IsEmpty());
}

TEST(ProcessTrials, NameVictimsPhaseAndRecoveries) {
  Rows rows = clean_arm("data");
  rows.push_back(recovered(TrialKind::trial, "process.backward", "golden"));
  rows.back().result->recoveries[0].times.redo = 0.25;
  Trust trust;
  trust.judging = judging(spare);
  trust.controls = controls_of(rows, trust.judging);
  const auto lines = trials_view(rows, trust);
  ASSERT_EQ(lines.size(), 1U);
  const record::Json json = to_json(lines[0]);
  EXPECT_EQ(json["victims"], record::Json({1}));
  EXPECT_EQ(json["phase"], "backward");
  EXPECT_EQ(json["step"], 5);
  EXPECT_EQ(json["point"], 2);
  EXPECT_EQ(json["recovered"], true);
  EXPECT_EQ(json["recoveries"][0]["volatile"]["redo"], 0.25);
  EXPECT_FALSE(json.contains("tensor"));
  EXPECT_EQ(record::described(rows.back().faults, 4), "rank 1@5:backward.2=kill");
}

}  // namespace
}  // namespace bitrift::analyze::process_test
