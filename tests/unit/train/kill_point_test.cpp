#include "train/step/kill_point.h"

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "record/fault/death_note.h"

namespace bitrift::train {
namespace {

using record::Ending;
using record::ProcessFault;
using record::TrainingPhase;

KillPoint armed(const ProcessFault& fault, const std::filesystem::path& note = {}) {
  KillPoint point;
  point.arm({fault}, note);
  point.work_as({1});
  return point;
}

TEST(KillPointDeathTest, StrikesAtItsStepPhaseAndPointOnly) {
  KillPoint point = armed({1, 3, TrainingPhase::reduce, 2, Ending::exit});
  point.at_step(2);
  point.reach(TrainingPhase::reduce, 2, 5);
  point.at_step(3);
  point.reach(TrainingPhase::forward, 2, 5);
  point.reach(TrainingPhase::reduce, 1, 5);
  EXPECT_EXIT(point.reach(TrainingPhase::reduce, 2, 5), testing::ExitedWithCode(0), "");
}

TEST(KillPointDeathTest, StrikesAtTheLastPointOfARankThatHasFewer) {
  KillPoint point = armed({1, 3, TrainingPhase::update, 20, Ending::kill});
  point.at_step(3);
  point.reach(TrainingPhase::update, 0, 2);
  EXPECT_EXIT(point.reach(TrainingPhase::update, 1, 2), testing::KilledBySignal(SIGKILL), "");
}

TEST(KillPointDeathTest, StrikesAfterTheSaveAtTheOnlyPointOfARunThatEndsWithALostRank) {
  KillPoint point = armed({1, 10, TrainingPhase::leave, 2, Ending::exit});
  point.at_step(10);
  point.reach(record::FinishPoint::gathered);
  point.reach(record::LeavePoint::saved, true);
  EXPECT_EXIT(point.reach(record::LeavePoint::reported, true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(point.reach(record::LeavePoint::saved, false), testing::ExitedWithCode(0), "");
}

TEST(KillPoint, SparesOtherRanksAndThoseThatFailedAlready) {
  KillPoint point = armed({0, 3, TrainingPhase::forward, 0, Ending::kill});
  point.at_step(3);
  point.reach(TrainingPhase::forward, 0, 1);
  point.work_as({0, 1});
  point.spend({0}, 3);
  point.reach(TrainingPhase::forward, 0, 1);
  EXPECT_TRUE(point.faults().empty());
}

TEST(KillPointDeathTest, LeavesANoteOfItsDeath) {
  const std::filesystem::path note = testing::TempDir() + "death-note";
  std::filesystem::remove(note);
  EXPECT_FALSE(record::last_death_note(note, record::monotonic_seconds()));
  const double before = record::monotonic_seconds();
  EXPECT_EXIT(
      {
        KillPoint point = armed({1, 3, TrainingPhase::forward, 0, Ending::kill}, note);
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
