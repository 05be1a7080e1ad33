#include "train/fault/kill_point.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "mpi/pulse.h"
#include "record/fault/death_note.h"

namespace bitrift::train {
namespace {

using record::FailureMode;
using record::ProcessFault;
using record::TrainingPhase;

KillPoint armed(const ProcessFault& fault, const std::filesystem::path& note = {}) {
  KillPoint point;
  point.arm({fault}, note);
  point.work_as({1});
  return point;
}

TEST(KillPointDeathTest, StrikesAtItsStepPhaseAndPointOnly) {
  KillPoint point = armed({1, 3, TrainingPhase::reduce, 2, FailureMode::exit});
  point.at_step(2);
  point.reach(TrainingPhase::reduce, 2, 5);
  point.at_step(3);
  point.reach(TrainingPhase::forward, 2, 5);
  point.reach(TrainingPhase::reduce, 1, 5);
  EXPECT_EXIT(point.reach(TrainingPhase::reduce, 2, 5), testing::ExitedWithCode(0), "");
}

TEST(KillPointDeathTest, StrikesAtTheLastPointOfARankThatHasFewer) {
  KillPoint point = armed({1, 3, TrainingPhase::update, 20, FailureMode::kill});
  point.at_step(3);
  point.reach(TrainingPhase::update, 0, 2);
  EXPECT_EXIT(point.reach(TrainingPhase::update, 1, 2), testing::KilledBySignal(SIGKILL), "");
}

TEST(KillPointDeathTest, StrikesAfterTheSaveAtTheOnlyPointOfARunThatEndsWithALostRank) {
  KillPoint point = armed({1, 10, TrainingPhase::leave, 2, FailureMode::exit});
  point.at_step(10);
  point.reach(record::FinishPoint::gathered);
  point.reach(record::LeavePoint::saved, true);
  EXPECT_EXIT(point.reach(record::LeavePoint::reported, true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(point.reach(record::LeavePoint::saved, false), testing::ExitedWithCode(0), "");
}

TEST(KillPoint, SparesOtherRanksAndThoseThatFailedAlready) {
  KillPoint point = armed({0, 3, TrainingPhase::forward, 0, FailureMode::kill});
  point.at_step(3);
  point.reach(TrainingPhase::forward, 0, 1);
  point.work_as({0, 1});
  point.spend({0}, 2);
  point.reach(TrainingPhase::forward, 0, 1);
  EXPECT_TRUE(point.faults().empty());
}

// The one that died got the last message of a step, and those that it sent were lost: it was one step ahead.
TEST(KillPoint, ForgetsAFaultThatStruckARankAheadOfTheSurvivors) {
  const auto left = [](std::vector<std::int64_t> steps, std::int64_t reached) {
    std::vector<ProcessFault> faults;
    for (const std::int64_t step : steps)
      faults.push_back({1, step, TrainingPhase::forward, 0, FailureMode::kill});
    faults.push_back({2, 4, TrainingPhase::forward, 0, FailureMode::kill});
    faults.push_back({1, 4, TrainingPhase::forward, 0, FailureMode::slow, record::Slowness{2, 1}});
    KillPoint point;
    point.arm(faults, {});
    point.spend({0, 1}, reached);
    std::vector<std::int64_t> rest;
    for (const ProcessFault& fault : point.faults()) rest.push_back(fault.rank * 100 + fault.step);
    return rest;
  };
  using Rest = std::vector<std::int64_t>;
  EXPECT_EQ(left({4}, 3), (Rest{204}));
  EXPECT_EQ(left({4}, 2), (Rest{204}));
  EXPECT_EQ(left({3, 4}, 2), (Rest{104, 204, 104}));  // the next one is for the rank's replacement
  EXPECT_EQ(left({4}, 1), (Rest{104, 204, 104}));     // something else killed it
  EXPECT_EQ(left({}, 2), (Rest{204, 104}));
}

// Survivors may have completed the step in whose update a rank died. Its fault of the next step is for its
// replacement.
TEST(KillPoint, KeepsTheFaultOfTheNextStepWhereTheUpdateOfTheLastOneStruck) {
  const auto left = [](TrainingPhase phase) {
    KillPoint point;
    point.arm({{1, 3, phase, 0, FailureMode::kill}, {1, 4, TrainingPhase::forward, 0, FailureMode::kill}},
              {});
    point.spend({0, 1}, 3);
    return point.faults().size();
  };
  EXPECT_EQ(left(TrainingPhase::update), 1U);
  EXPECT_EQ(left(TrainingPhase::forward), 0U);  // the run did not reach it: others have completed the step
}

// Rank 1 is in step 3 when it notices that rank 2 has failed in step 4, and its own fault is in that
// recovery.
TEST(KillPointDeathTest, StrikesInTheRecoveryFromAStepThatItHasNotReached) {
  const ProcessFault other{2, 4, TrainingPhase::forward, 0, FailureMode::kill};
  const ProcessFault fault{1, 4, TrainingPhase::recovery, 0, FailureMode::exit};
  KillPoint point;
  const auto notice = [&](const ProcessFault& mine) {
    point.arm({other, mine}, {});
    point.work_as({1});
    point.at_step(3);
    point.reach(record::RecoveryPoint::noticed);
    point.spend({2}, 2);
  };
  notice(fault);
  EXPECT_EXIT(point.reach(record::RecoveryPoint::state), testing::ExitedWithCode(0), "");
  notice({1, 5, TrainingPhase::recovery, 0, FailureMode::exit});  // in another one
  point.reach(record::RecoveryPoint::state);
  notice({1, 4, TrainingPhase::forward, 0, FailureMode::exit});  // in the step itself
  point.reach(record::RecoveryPoint::state);
  notice(fault);
  point.at_step(4);  // the recovery is over
  point.reach(TrainingPhase::forward, 0, 1);
}

// What it calculates takes three times as long; what it waits for others does not.
TEST(KillPoint, SlowsItsRankDownToTheEndOfTheLastStep) {
  constexpr std::chrono::milliseconds work{20};
  const auto step = [&](KillPoint& point, std::int64_t number) {
    const double began = record::monotonic_seconds();
    point.at_step(number);
    point.reach(TrainingPhase::forward, 0, 1);
    std::this_thread::sleep_for(work);
    point.reach(TrainingPhase::backward, 0, 1);
    {
      const mpi::Waiting others;
      std::this_thread::sleep_for(work);
    }
    point.reach(TrainingPhase::update, 0, 1);
    return record::monotonic_seconds() - began;
  };
  ProcessFault fault{1, 3, TrainingPhase::forward, 0, FailureMode::slow, record::Slowness{51, 2}};
  KillPoint point = armed(fault);
  EXPECT_LT(step(point, 2), 1);
  EXPECT_GE(step(point, 3), 1);
  EXPECT_GE(step(point, 4), 1);
  EXPECT_LT(step(point, 5), 1);
  fault.slowness->factor = 3;
  KillPoint other = armed(fault);
  EXPECT_GE(step(other, 3), 0.08);
}

TEST(KillPointDeathTest, LeavesANoteOfItsDeath) {
  const std::filesystem::path note = testing::TempDir() + "death-note";
  std::filesystem::remove(note);
  EXPECT_FALSE(record::last_death_note(note, record::monotonic_seconds()));
  const double before = record::monotonic_seconds();
  EXPECT_EXIT(
      {
        KillPoint point = armed({1, 3, TrainingPhase::forward, 0, FailureMode::kill}, note);
        point.at_step(3);
        point.reach(TrainingPhase::forward, 0, 1);
      },
      testing::KilledBySignal(SIGKILL), "");
  const auto left = record::last_death_note(note, record::monotonic_seconds());
  ASSERT_TRUE(left);
  EXPECT_EQ(left->rank, 1);
  EXPECT_EQ(left->step, 3);
  EXPECT_GE(left->time, before);
  EXPECT_FALSE(record::last_death_note(note, before));
}

}  // namespace
}  // namespace bitrift::train
