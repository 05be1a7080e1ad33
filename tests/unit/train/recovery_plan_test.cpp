#include "train/recover/recovery_plan.h"

#include <gtest/gtest.h>

namespace bitrift::train {
namespace {

using record::RecoveryKind;
using record::StateSource;
using Ranks = std::vector<int>;

// A survivor that had completed so many steps and was in the next one.
Report survivor(int rank, std::int64_t steps, int stage = 0, int stages = 1) {
  Report report{.rank = rank, .live = HeldState{{steps, Next::step}, stage, stages, 0}};
  report.reached = steps;
  return report;
}

Report waiting() { return {}; }

record::RecoverySpec spec(RecoveryKind kind, int spares = 0) {
  record::RecoverySpec spec;
  spec.kind = kind;
  spec.spares = spares;
  return spec;
}

TEST(RecoveryPlan, ShrinksOntoTheSurvivors) {
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(4, 1),
                                          {survivor(0, 7), survivor(1, 7), survivor(3, 7)});
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.failed, (Ranks{2}));
  EXPECT_EQ(plan.failed_seats, (Ranks{2}));
  EXPECT_EQ(plan.workers, (Ranks{0, 1, 2}));
  EXPECT_EQ(plan.givers, (Ranks{0, 1, 2}));  // nothing moves
  EXPECT_EQ(plan.state, StateSource::replica);
  EXPECT_FALSE(plan.rolls_back);
  EXPECT_EQ(plan.target, (Position{7, Next::step}));
}

TEST(RecoveryPlan, AdoptsTheHighestCompletedStep) {
  Report behind = survivor(0, 7);
  behind.prepared = true;
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(3, 1), {behind, survivor(1, 8)});
  EXPECT_EQ(plan.target, (Position{8, Next::step}));
  EXPECT_EQ(plan.leader, 1);
  EXPECT_EQ(plan.givers, (Ranks{0, 1}));  // it lacks only the decision
}

TEST(RecoveryPlan, SeatsSparesInTheDeadRanksPlace) {
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::spare, 1), ReplicaMap(3, 1),
                                          {survivor(1, 4), survivor(2, 4), waiting(), waiting()});
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.workers, (Ranks{2, 0, 1}));
  EXPECT_EQ(plan.givers, (Ranks{0, 0, 1}));
  EXPECT_EQ(plan.map, ReplicaMap(3, 1));
}

TEST(RecoveryPlan, TakesNoMoreSparesThanTheRunHas) {
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::spare, 1), ReplicaMap(3, 1), {survivor(1, 4), waiting(), waiting()});
  EXPECT_NE(plan.refusal.find("no spare is left"), std::string::npos) << plan.refusal;
}

TEST(RecoveryPlan, EndsARecoveryWhoseReplacementsKeepFailing) {
  Report knows = survivor(0, 4);
  knows.attempts = most_recovery_attempts;
  Report joined;
  joined.joined = true;
  const std::vector<Report> all = {knows, survivor(2, 4), joined};
  EXPECT_EQ(plan_recovery(spec(RecoveryKind::respawn), ReplicaMap(3, 1), all).refusal, "");
  std::vector<Report> again = all;
  again.front().attempts += 1;
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::respawn), ReplicaMap(3, 1), again);
  EXPECT_NE(plan.refusal.find("each of 10 attempts"), std::string::npos) << plan.refusal;
  EXPECT_EQ(plan.failed_seats, (Ranks{1}));
}

TEST(RecoveryPlan, AsksForProcessesBeforeThereIsAPlan) {
  EXPECT_EQ(plan_recovery(spec(RecoveryKind::respawn), ReplicaMap(3, 1), {survivor(1, 4)}).missing, 2);
  Report joined;
  joined.joined = true;
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::respawn), ReplicaMap(3, 1), {survivor(1, 4), joined, joined});
  EXPECT_EQ(plan.missing, 0);
  EXPECT_EQ(plan.workers, (Ranks{1, 0, 2}));
}

TEST(RecoveryPlan, NamesTheStageThatIsLost) {
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::spare, 1), ReplicaMap(1, 3),
                                          {survivor(0, 4, 0, 3), survivor(2, 4, 2, 3), waiting()});
  EXPECT_NE(plan.refusal.find("stage 1"), std::string::npos) << plan.refusal;
}

TEST(RecoveryPlan, RollsAPipelineBackToTheNewestWholeSnapshot) {
  Report first = survivor(0, 14, 0, 3), last = survivor(2, 14, 2, 3);
  const auto held = [](std::int64_t steps, int stage) { return HeldState{{steps, Next::look}, stage, 3, 0}; };
  // The snapshot of step 10 lacks stage 1: its holder died before the copy was complete.
  first.snapshots = {held(10, 0), held(5, 0), held(10, 2), held(5, 2)};
  last.snapshots = {held(10, 2), held(5, 2), held(5, 1)};
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::spare, 1), ReplicaMap(1, 3), {first, last, waiting()});
  EXPECT_EQ(plan.refusal, "");
  EXPECT_TRUE(plan.rolls_back);
  EXPECT_EQ(plan.state, StateSource::buddy);
  EXPECT_EQ(plan.target, (Position{5, Next::look}));
  EXPECT_EQ(plan.workers, (Ranks{0, 2, 1}));
  EXPECT_EQ(plan.givers, (Ranks{0, 1, 1}));
}

TEST(RecoveryPlan, CutsAPipelineAgainWhenItShrinks) {
  Report first = survivor(0, 14, 0, 2);
  first.snapshots = {{{10, Next::look}, 0, 2, 0}, {{10, Next::look}, 1, 2, 0}};
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(1, 2), {first});
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.map, ReplicaMap(1, 1));
  EXPECT_TRUE(plan.rolls_back);
  EXPECT_TRUE(plan.givers.empty());
  EXPECT_EQ(plan.donors, (Ranks{0, 0}));
}

// A survivor between two steps that asks for the ranks that the run has lost.
Report asking(int rank, std::int64_t steps, int stage = 0, int stages = 1) {
  Report report = survivor(rank, steps, stage, stages);
  report.asks = true;
  return report;
}

Report joining() {
  Report report;
  report.joined = true;
  return report;
}

TEST(RecoveryPlan, ExpandsToTheRanksThatTheRunBeganWith) {
  // Rank 0 of four had died: rank 0 of three has seats 0 and 1.
  const ReplicaMap three(4, 1, {0, 0, 1, 2});
  std::vector<Report> reports = {asking(0, 7), asking(1, 7), asking(2, 7)};
  EXPECT_EQ(plan_recovery(spec(RecoveryKind::shrink), three, reports).missing, 1);
  reports.push_back(joining());
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::shrink), three, reports);
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.missing, 0);
  EXPECT_FALSE(plan.interrupted);
  EXPECT_EQ(plan.workers, (Ranks{0, 3, 1, 2}));
  EXPECT_EQ(plan.givers, (Ranks{0, 0, 1, 2}));
  EXPECT_EQ(plan.map, ReplicaMap(4, 1));
  EXPECT_TRUE(plan.failed.empty());
  EXPECT_EQ(plan.state, std::nullopt);
  EXPECT_FALSE(plan.rolls_back);
}

TEST(RecoveryPlan, CutsAPipelineIntoItsFirstStagesWhenItExpands) {
  Report first = asking(0, 14, 0, 2), last = asking(1, 14, 1, 2);
  first.snapshots = {{{14, Next::step}, 0, 2, 0}, {{14, Next::step}, 1, 2, 0}};
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(1, 2), {first, last, joining()}, {}, 3);
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.map, ReplicaMap(1, 3));
  EXPECT_EQ(plan.workers, (Ranks{0, 1, 2}));
  EXPECT_TRUE(plan.rolls_back);
  EXPECT_EQ(plan.target, (Position{14, Next::step}));
  EXPECT_EQ(plan.donors, (Ranks{0, 0}));
}

TEST(RecoveryPlan, ReplacesARankThatDiesWhileTheRunExpands) {
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(4, 1, {0, 0, 1, 2}),
                                          {asking(0, 7), asking(2, 7), joining(), joining()});
  EXPECT_EQ(plan.failed_seats, (Ranks{2}));
  EXPECT_EQ(plan.workers, (Ranks{0, 2, 3, 1}));
  EXPECT_EQ(plan.state, StateSource::replica);
  EXPECT_FALSE(plan.interrupted);
}

TEST(RecoveryPlan, StartsNoProcessIfAllRanksThatWorkedAreDead) {
  for (const RecoveryKind kind : {RecoveryKind::shrink, RecoveryKind::spare}) {
    const RecoveryPlan plan = plan_recovery(spec(kind, 1), ReplicaMap(3, 1), {waiting()});
    EXPECT_TRUE(plan.interrupted);
    EXPECT_EQ(plan.missing, kind == RecoveryKind::shrink ? 0 : 2);
    EXPECT_NE(plan.refusal.find(kind == RecoveryKind::shrink ? "no rank is left" : "no spare is left"),
              std::string::npos)
        << plan.refusal;
  }
}

TEST(RecoveryPlan, ExpandsOnlyIfAllRanksAskAndProcessesCanBeStarted) {
  const ReplicaMap three(4, 1, {0, 0, 1, 2});
  const std::vector<Report> all = {asking(0, 7), asking(1, 7), asking(2, 7)};
  const auto plan_of = [&](std::vector<Report> reports) {
    return plan_recovery(spec(RecoveryKind::shrink), three, reports);
  };
  ASSERT_EQ(plan_of(all).missing, 1);
  std::vector<Report> one_is_in_a_step = all, refused = all, too_often = all;
  one_is_in_a_step[1].asks = false;
  refused[2].refused = true;
  too_often[0].attempts = most_attempts_to_expand + 1;
  EXPECT_TRUE(plan_of(one_is_in_a_step).interrupted);
  for (const std::vector<Report>& reports : {one_is_in_a_step, refused, too_often}) {
    const RecoveryPlan plan = plan_of(reports);
    EXPECT_EQ(plan.refusal, "");
    EXPECT_EQ(plan.missing, 0);
    EXPECT_EQ(plan.map, three);
    EXPECT_EQ(plan.givers, (Ranks{0, 1, 2}));
  }
}

TEST(RecoveryPlan, DropsAReplicaThatLostARank) {
  record::RecoverySpec smaller = spec(RecoveryKind::shrink);
  smaller.batch = record::BatchRule::smaller;
  const RecoveryPlan plan = plan_recovery(smaller, ReplicaMap(2, 2),
                                          {survivor(0, 3, 0, 2), survivor(2, 3, 0, 2), survivor(3, 3, 1, 2)});
  EXPECT_EQ(plan.workers, (Ranks{1, 2}));
  EXPECT_EQ(plan.map, ReplicaMap(1, 2));
}

TEST(RecoveryPlan, TakesTheFileWhereNothingElseIsLeft) {
  Report one = survivor(0, 9, 0, 2);
  one.file = Position{6, Next::look};
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::spare, 1), ReplicaMap(1, 2), {one, waiting()});
  EXPECT_EQ(plan.state, StateSource::file);
  EXPECT_EQ(plan.target, (Position{6, Next::look}));
}

TEST(RecoveryPlan, RepeatsWhatAReportSays) {
  Report one = survivor(2, 9, 1, 3);
  one.prepared = true;
  one.snapshots = {{{5, Next::look}, 1, 3, 2}};
  one.file = Position{3, Next::step};
  const auto again = record::Json(one).get<Report>();
  EXPECT_EQ(again.rank, 2);
  EXPECT_TRUE(again.prepared);
  EXPECT_EQ(again.live, one.live);
  EXPECT_EQ(again.snapshots, one.snapshots);
  EXPECT_EQ(again.file, one.file);
  EXPECT_EQ(again.reached, 9);
}

record::MeshSpec mesh_of(const std::string& size, const std::vector<std::string>& dead,
                         comm::Scheme schedule = comm::Scheme::trees) {
  return {comm::topology_from_text({size, "neither", dead, {}}), schedule};
}

std::vector<Report> all_but(int ranks, int dead) {
  std::vector<Report> reports;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != dead) reports.push_back(survivor(rank, 7));
  }
  return reports;
}

TEST(RecoveryPlan, TheChipOfARankThatIsNotReplacedIsDead) {
  // Chips 1 to 5 of 2x3 are alive, as ranks 0 to 4; rank 2 is chip 3.
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(5, 1), all_but(5, 2), mesh_of("2x3", {"0,0"}));
  EXPECT_EQ(plan.refusal, "");
  ASSERT_TRUE(plan.mesh);
  EXPECT_EQ(plan.mesh->topology.live(), (Ranks{1, 2, 4, 5}));
  EXPECT_EQ(plan.mesh->schedule, comm::Scheme::trees);
}

TEST(RecoveryPlan, ASpareWorksOnTheDeadRanksChip) {
  std::vector<Report> reports = all_but(5, 3);
  reports.push_back(waiting());
  const record::MeshSpec mesh = mesh_of("2x3", {"0,0"});
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::spare, 1), ReplicaMap(5, 1), reports, mesh);
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.mesh, mesh);
  EXPECT_EQ(plan.workers[3], 4);
}

TEST(RecoveryPlan, ChipsThatCannotReachEachOtherAreRefused) {
  const RecoveryPlan plan =
      plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(3, 1), all_but(3, 1), mesh_of("1x3", {}));
  EXPECT_NE(plan.refusal.find("chip 2 (row 0, column 2) cannot be reached"), std::string::npos)
      << plan.refusal;
}

TEST(RecoveryPlan, AScheduleThatCannotServeTheChipsThatAreLeftIsRefused) {
  const RecoveryPlan plan = plan_recovery(spec(RecoveryKind::shrink), ReplicaMap(4, 1), all_but(4, 0),
                                          mesh_of("2x2", {}, comm::Scheme::ring));
  EXPECT_NE(plan.refusal.find("there is no ring"), std::string::npos) << plan.refusal;
}

}  // namespace
}  // namespace bitrift::train
