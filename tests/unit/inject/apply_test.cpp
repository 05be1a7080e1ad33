// Injections into copies and in place: what is replaced, kept and refused.
#include "inject/write/apply.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "inject/draw/fault_plan.h"
#include "inject/write/undo_journal.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::apply_test {
namespace {

using std::filesystem::perms;
using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;
using testing::write_tensors;

class Apply : public ::testing::Test {
 protected:
  Apply() {
    write_tensors(input_, {{"model/a.weight", "float32", {0x3f800000, 0x40000000, 0}}});
    before_ = bytes_of(input_);
    record::FaultModel model;
    model.what = record::FaultKind::zero;
    model.count = 3;
    faults_ = plan(ckpt::Reader(input_), model).list;
  }
  /// That a file holds three zeros, and the checksum of 12 zero bytes.
  void expect_zeros(const std::filesystem::path& file) const {
    EXPECT_TRUE(testing::python(file, R"(
with h5py.File(path) as f:
    assert f['model/a.weight'][()].tobytes() == bytes(12)
    assert list(f['checksum/path'][()]) == [b'model/a.weight']
    crc = 0xffffffff
    for _ in range(8 * 12):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    assert f['checksum/crc32c'][0] == crc ^ 0xffffffff
)"));
  }

  Scratch scratch_;
  std::filesystem::path input_ = scratch_ / "in.h5";
  std::filesystem::path output_ = scratch_ / "out.h5";
  std::string before_;
  record::FaultList faults_;
};

TEST_F(Apply, ACopyReplacesAnOlderFileInsteadOfWritingIntoIt) {
  write_bytes(output_, "an older file");
  const FileDescriptor older = open_file(output_, O_RDONLY);
  inject_copy(input_, output_, faults_);
  expect_zeros(output_);
  EXPECT_EQ(bytes_of(input_), before_);
  // A program that had opened the older file still has it.
  EXPECT_EQ(size_of(older, output_), 13U);
  EXPECT_EQ(scratch_.entries(), 2U);
}

TEST_F(Apply, ACopyHasTheModeOfWhatItReplacesElseThatOfTheInput) {
  const auto mode = [](const std::filesystem::path& file) {
    return std::filesystem::status(file).permissions();
  };
  const mode_t mask = ::umask(022);
  std::filesystem::permissions(input_, perms{0640});
  inject_copy(input_, output_, faults_);
  EXPECT_EQ(mode(output_), perms{0640});
  std::filesystem::permissions(output_, perms{0604});
  inject_copy(input_, output_, faults_);
  EXPECT_EQ(mode(output_), perms{0604});
  std::filesystem::remove(output_);
  std::filesystem::permissions(input_, perms{0666});
  inject_copy(input_, output_, faults_);
  EXPECT_EQ(mode(output_), perms{0644});  // as umask has it
  ::umask(mask);
}

TEST_F(Apply, ACopyThatFailsLeavesTheOlderFileAndNothingElse) {
  write_bytes(output_, "an older file");
  record::FaultList wrong = faults_;
  wrong.changes[0].old_pattern ^= 1;
  EXPECT_ERROR(inject_copy(input_, output_, wrong), conflict, "was drawn for");
  EXPECT_EQ(bytes_of(output_), "an older file");
  EXPECT_EQ(scratch_.entries(), 2U);
  EXPECT_ERROR(inject_copy(scratch_ / "none.h5", output_, faults_), not_found, "none.h5");
  EXPECT_EQ(bytes_of(output_), "an older file");
}

TEST_F(Apply, ACopyOntoItsInputOrAFolderIsRefused) {
  std::filesystem::create_symlink("in.h5", scratch_ / "link.h5");
  std::filesystem::create_hard_link(input_, scratch_ / "name.h5");
  std::filesystem::create_directory(scratch_ / "folder");
  for (const char* same : {"in.h5", "link.h5", "name.h5"})
    EXPECT_ERROR(inject_copy(input_, scratch_ / same, faults_), bad_input, "is the input file");
  EXPECT_ERROR(inject_copy(input_, scratch_ / "folder", faults_), bad_input, "is a directory");
  EXPECT_EQ(bytes_of(input_), before_);
  EXPECT_EQ(scratch_.entries(), 4U);
}

TEST_F(Apply, InPlaceChangesTheFileAndLeavesAJournal) {
  inject_in_place(input_, faults_);
  expect_zeros(input_);
  EXPECT_TRUE(std::filesystem::exists(undo_path(input_)));
  EXPECT_EQ(scratch_.entries(), 2U);
  const std::string altered = bytes_of(input_);
  EXPECT_ERROR(inject_in_place(input_, faults_), conflict, "already holds an injection; undo it first");
  EXPECT_EQ(bytes_of(input_), altered);
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < altered.size(); ++i) differing += altered[i] != before_[i] ? 1 : 0;
  EXPECT_EQ(undo(input_), differing);
  EXPECT_EQ(bytes_of(input_), before_);
  EXPECT_EQ(scratch_.entries(), 1U);
}

TEST_F(Apply, InPlaceTakesBackWhatWasInterrupted) {
  inject_in_place(input_, faults_);
  std::string half = bytes_of(input_);
  std::size_t at = 0;
  while (half[at] == before_[at]) ++at;
  half[at] = before_[at];
  write_bytes(input_, half);
  inject_in_place(input_, faults_);
  expect_zeros(input_);
  write_bytes(input_, half);
  take_back_unfinished(input_);
  EXPECT_EQ(bytes_of(input_), before_);
  EXPECT_FALSE(std::filesystem::exists(undo_path(input_)));
  take_back_unfinished(input_);  // without a journal nothing happens
  EXPECT_EQ(bytes_of(input_), before_);
}

TEST_F(Apply, InPlaceIsRefusedForAFileOfTwoNames) {
  std::filesystem::create_hard_link(input_, scratch_ / "name.h5");
  EXPECT_ERROR(inject_in_place(input_, faults_), unsupported, "has 2 names (hard links)");
  EXPECT_EQ(bytes_of(input_), before_);
  EXPECT_EQ(scratch_.entries(), 2U);
}

TEST_F(Apply, InPlaceWithoutAChangeLeavesNoJournal) {
  record::FaultList none = faults_;
  std::erase_if(none.changes, [](const record::ElementChange& one) { return one.old_pattern != 0; });
  ASSERT_EQ(none.changes.size(), 1U);
  inject_in_place(input_, none);
  EXPECT_EQ(bytes_of(input_), before_);
  EXPECT_EQ(scratch_.entries(), 1U);
}

}  // namespace
}  // namespace bitrift::inject::apply_test
