#include "campaign/folder/disk_use.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "campaign/folder/work_place.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::disk_use_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

class DiskUseTest : public ::testing::Test {
 protected:
  DiskUseTest() { testing::write_base(layout_.base("base")); }
  [[nodiscard]] DiskUse use(const JournalRows& rows = {}) const {
    const Bases bases = open_bases(layout_, spec_);
    const Plan plan(spec_, bases);
    return disk_use(plan, layout_, rows, 3);
  }
  TemporaryFolder folder_;
  Layout layout_{folder_.path()};
  design::CampaignSpec spec_ = testing::small_spec();
};

TEST_F(DiskUseTest, CountsEveryPlannedRowAndCopy) {
  const DiskUse all = use();
  // Two arms of 2 + 1 controls, 20 envelope, 4 held-out and 4 jitter runs, 3 + 2 canaries, 1 control after
  // them and 4 strata x 9 draws.
  EXPECT_EQ(all.rows, 2U * (37 + 36));
  EXPECT_EQ(all.bases, std::filesystem::file_size(layout_.base("base")));
  EXPECT_EQ(all.copy_bytes(), 3 * all.bases);
  EXPECT_FALSE(all.more_rounds);
}

TEST_F(DiskUseTest, OfSeveralBasesTheLargestIsWhatACopyTakes) {
  spec_.files.push_back({0, "fp64", "base-fp64"});
  testing::write_base(layout_.base("base-fp64"));
  const auto size = std::filesystem::file_size(layout_.base("base"));
  const FileDescriptor fd = open_file(layout_.base("base-fp64"), O_WRONLY | O_APPEND);
  write_at(fd, "x", 1, size, layout_.base("base-fp64"));
  EXPECT_EQ(use().bases, 2 * size + 1);
  EXPECT_EQ(use().copy_bytes(), 3 * (size + 1));
}

TEST_F(DiskUseTest, RowThatIsMadeUpIsNotSmallerThanARealOne) {
  record::TrialRecord real = testing::row("data-2", "momentum.exponent", 1234);
  real.result->replicas.resize(2, real.result->replicas[0]);
  real.result->replica_digests = {std::string(32, 'a'), std::string(32, 'a')};
  real.host = "a-machine";
  const auto size = journal_line(record::to_json(real)).size();
  EXPECT_GE(use().row_bytes, size);
  EXPECT_LE(use().row_bytes, 4 * size);
}

TEST_F(DiskUseTest, NoFlipRunsOfFurtherOrdersAndFaultsOfJitterRunsAreCounted) {
  const DiskUse one = use();
  spec_.orders = 3;
  EXPECT_EQ(use().rows, one.rows + 2U * 2 * 2);
  const Bases bases = open_bases(layout_, spec_);
  record::TrialRecord jitter = testing::row("serial", "jitter", 0, record::TrialKind::jitter);
  const auto without = journal_line(record::to_json(jitter)).size();
  jitter.faults = Plan(spec_, bases).expand({jitter.kind, jitter.id}).faults;
  const auto faults = journal_line(record::to_json(jitter)).size() - without;
  EXPECT_GE(one.fault_bytes, 2 * 4 * faults / 2);
  EXPECT_LE(one.fault_bytes, 2 * 4 * faults * 2);
  EXPECT_EQ(one.journal_bytes(), one.rows * one.row_bytes + one.fault_bytes);
  spec_.jitter_runs = 0;
  EXPECT_EQ(use().fault_bytes, 0U);
}

TEST_F(DiskUseTest, RowsThatAreThereAreMeasuredAndNotCountedAgain) {
  Journal journal(layout_.journal());
  for (std::uint64_t draw = 0; draw < 38; ++draw) journal.append(testing::row("serial", "weight.sign", draw));
  const DiskUse rest = use(journal.rows());
  EXPECT_EQ(rest.rows, 2U * 73 - 38);
  EXPECT_EQ(rest.row_bytes, std::filesystem::file_size(layout_.journal()) / 38 + 1);
}

TEST_F(DiskUseTest, SamplingIsBoundedByItsBudgetOrByWhatIsPlanned) {
  spec_.trials_per_stratum = 0;
  spec_.sampling = record::Sampling{};
  EXPECT_EQ(use().rows, 2U * (37 + 4 * spec_.sampling->pilot));
  EXPECT_TRUE(use().more_rounds);
  spec_.sampling->max_trials = 500;
  EXPECT_EQ(use().rows, 2U * 37 + 500);
  EXPECT_FALSE(use().more_rounds);
}

TEST_F(DiskUseTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  DiskUse much = use();
  check_space(much, folder_.path(), folder_.path());
  much.rows = std::uint64_t{1} << 40U;
  EXPECT_THAT(tests::error_of([&] { check_space(much, folder_.path(), folder_.path()); }),
              ::testing::AllOf(HasSubstr("TiB"), HasSubstr("free there"), HasSubstr("--ignore-space")));
  much = use();
  much.copy = std::uint64_t{1} << 60U;
  EXPECT_THAT(tests::error_of([&] { check_space(much, folder_.path(), "/dev/shm"); }),
              HasSubstr("the workers' copies"));
}

TEST_F(DiskUseTest, WorkersAreThoseThatWorkAndThoseThatWait) {
  EXPECT_EQ(most_workers(spec_, 1), 2U);  // one of each arm
  spec_.arms.resize(20, spec_.arms[0]);
  EXPECT_EQ(most_workers(spec_, 4), 10U);
}

}  // namespace
}  // namespace bitrift::campaign::disk_use_test
