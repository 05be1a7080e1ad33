#include "campaign/worker/relaunch.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/fault/death_note.h"
#include "support.h"

namespace bitrift::campaign::relaunch_test {
namespace {

using record::ProcessFault;
using record::RecoveryKind;
using record::TrainingPhase;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int ranks = 3;

// A worker's copy after a run of which it died.
class LossOfRunTest : public ::testing::Test {
 protected:
  LossOfRunTest() {
    testing::write_base(folder_ / "base.h5");
    base_ = std::make_unique<ckpt::Reader>(folder_ / "base.h5");
    new_worker();
    crew_.job = Job{0, {{record::TrialKind::trial, {"a", "s", 0}}}};
  }
  void new_worker() { crew_.copy = std::make_unique<PrivateCopy>(*base_, folder_ / "copy.h5"); }
  void ran(std::vector<ProcessFault> faults) {
    crew_.current.spec.faults = std::move(faults);
    crew_.current.started = "first";
    crew_.current.seconds = 2;
  }
  void died(int rank, std::int64_t step, TrainingPhase phase) {
    record::leave_death_note(crew_.copy->beside("deaths"),
                             {record::monotonic_seconds() - 1, rank, step, phase});
  }
  void saved(const std::string& text) {
    std::filesystem::create_directory(crew_.copy->beside("ledgers"));
    std::ofstream(crew_.copy->beside("saved")) << text;
    std::ofstream(crew_.copy->beside("ledgers") / ("ledger-" + text)) << text;
  }
  // The next worker takes the run over.
  RelaunchedRun continued() {
    auto loss = loss_of_run(crew_, ranks, true);
    EXPECT_TRUE(loss);
    crew_.job->relaunched = loss->next;
    crew_.current.started = "later";
    new_worker();
    return loss->next;
  }
  static std::vector<std::string> names_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename());
    return names;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<ckpt::Reader> base_;
  Crew crew_;
};

TEST_F(LossOfRunTest, WithoutWordOfADeathItIsAnAccident) {
  ran({{1, 4, TrainingPhase::update}});
  EXPECT_FALSE(loss_of_run(crew_, ranks, true));
  died(1, 3, TrainingPhase::update);  // of another step
  EXPECT_FALSE(loss_of_run(crew_, ranks, true));
}

TEST_F(LossOfRunTest, RunBeginsAgainWithoutACheckpoint) {
  ran({{1, 4, TrainingPhase::update}});
  died(1, 4, TrainingPhase::update);
  const RelaunchedRun next = continued();
  EXPECT_EQ(next.from.checkpoint, "");
  EXPECT_EQ(next.from.step, 4);
  EXPECT_EQ(next.from.phase, TrainingPhase::update);
  EXPECT_TRUE(next.faults.empty());
  ASSERT_EQ(next.from.recoveries.size(), 1U);
  const record::Recovery& recovery = next.from.recoveries[0];
  EXPECT_EQ(recovery.kind, RecoveryKind::relaunch);
  EXPECT_THAT(recovery.failed, ElementsAre(1));
  EXPECT_EQ(recovery.ranks_after, ranks);
  EXPECT_EQ(recovery.bytes_moved, ranks * std::filesystem::file_size(folder_ / "base.h5"));
  EXPECT_GE(recovery.times.detect.value(), 1);
  EXPECT_LT(recovery.times.detect.value(), 60);
}

TEST_F(LossOfRunTest, ClocksOfOtherMachinesSayNothing) {
  ran({{1, 4, TrainingPhase::update}});
  died(1, 4, TrainingPhase::update);
  EXPECT_FALSE(loss_of_run(crew_, ranks, false)->next.from.recoveries[0].times.detect);
}

TEST_F(LossOfRunTest, RanksOfOneStepAreLostTogether) {
  ran({{2, 4, TrainingPhase::update}, {0, 4, TrainingPhase::update}});
  died(2, 4, TrainingPhase::update);  // the job ended before rank 0 came so far
  const auto loss = loss_of_run(crew_, ranks, true);
  ASSERT_TRUE(loss);
  EXPECT_TRUE(loss->next.faults.empty());
  EXPECT_THAT(loss->next.from.recoveries[0].failed, ElementsAre(0, 2));
  EXPECT_EQ(loss->ended.status, record::RunStatus::unrecovered);
  EXPECT_EQ(loss->ended.id, crew_.current.spec.id.text());
  EXPECT_EQ(loss->ended.detail, "rank 0 and 2 failed, and the run cannot continue: recovery is off");
  EXPECT_THAT(loss->ended.recoveries.at(0).failed, ElementsAre(0, 2));
}

TEST_F(LossOfRunTest, CheckpointsOutliveTheWorkerAndNotTheRun) {
  ran({{1, 4, TrainingPhase::reduce}, {2, 4, TrainingPhase::recovery, 1}});
  saved("3");
  died(1, 4, TrainingPhase::reduce);
  RelaunchedRun next = continued();
  EXPECT_EQ(read_text(next.from.checkpoint), "3");
  EXPECT_THAT(names_in(next.from.ledgers), ElementsAre("ledger-3"));
  EXPECT_THAT(next.faults, ElementsAre(ProcessFault{2, 4, TrainingPhase::recovery, 1}));
  EXPECT_EQ(next.from.recoveries[0].bytes_moved, 3U);

  died(2, 4, TrainingPhase::recovery);
  next = continued();
  EXPECT_EQ(read_text(next.from.checkpoint), "3");
  EXPECT_EQ(next.from.phase, TrainingPhase::reduce) << "the step that was interrupted is the same";
  ASSERT_EQ(next.from.recoveries.size(), 2U);
  EXPECT_THAT(next.from.recoveries[0].failed, ElementsAre(1));
  EXPECT_THAT(next.from.recoveries[1].failed, ElementsAre(2));
  EXPECT_EQ(next.started, "first");
  EXPECT_EQ(next.seconds, 4);

  crew_.job.reset();
  const std::filesystem::path folder = next.files->path();
  next.files.reset();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(LossOfRunTest, LedgerOfALaterCheckpointKnowsOfEarlierLosses) {
  ran({{1, 4, TrainingPhase::forward}, {0, 9, TrainingPhase::forward}});
  saved("3");
  died(1, 4, TrainingPhase::forward);
  continued();
  saved("6");
  died(0, 9, TrainingPhase::forward);
  const RelaunchedRun next = continued();
  EXPECT_EQ(read_text(next.from.checkpoint), "6");
  EXPECT_THAT(names_in(next.from.ledgers), UnorderedElementsAre("ledger-3", "ledger-6"));
  ASSERT_EQ(next.from.recoveries.size(), 1U);
  EXPECT_EQ(next.from.step, 9);
}

}  // namespace
}  // namespace bitrift::campaign::relaunch_test
