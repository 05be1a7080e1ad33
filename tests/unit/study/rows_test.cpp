#include <fstream>

#include <gtest/gtest.h>

#include "study/reader/reader_answer.h"
#include "study/row/study_journal.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using bitrift::testing::bytes_of;
using bitrift::testing::Scratch;
using bitrift::testing::write_bytes;

std::vector<StudyRow> examples() {
  return {
      {Format::npz, FileWriter::native, SizeResult{100, 80, 90, 20}},
      {Format::dcp, FileWriter::native,
       DeterminismResult{false, 10, 11, 2, BitFault{".metadata", 3, 0, "x"}}},
      {Format::hdf5, FileWriter::bitrift, DeterminismResult{true, 10, 10, 0}},
      {Format::hdf5, FileWriter::bitrift,
       DamageResult{.canary = DamageCanary::zeroed, .outcome = DamageOutcome::detected, .message = "why"}},
      {Format::hdf5, FileWriter::bitrift,
       DamageResult{{},
                    BitStratum::metadata,
                    17,
                    BitFault{"", 9, 7, "header"},
                    DamageOutcome::silently_wrong,
                    "1 missing: w",
                    1}},
      {Format::pytorch, FileWriter::native,
       KillResult{0, false, {"openat", "write"}, 3, KillOutcome::complete, "", 0}},
      {Format::pytorch, FileWriter::native,
       KillResult{2, true, {"write"}, 0, KillOutcome::detected, "EOFError: x", 1}},
      {Format::hdf5, FileWriter::bitrift, StateResult{"rng/seed", 1, 1, 50, 1, 0.5, 2, ""}},
      {Format::hdf5, FileWriter::bitrift, StateResult{.piece = "progress/epoch", .refused = "no"}},
      {Format::dcp, FileWriter::native,
       ReplayResult{3, ValueChange{"rng/seed", 0, std::uint64_t{1} << 63U}, record::Reason::high_test_loss}},
      {Format::dcp, FileWriter::native, ReplayResult{4}},
  };
}

TEST(StudyRow, SurvivesJson) {
  for (const StudyRow& row : examples()) EXPECT_EQ(study_row_from_json(to_json(row)), row) << row.id();
  EXPECT_EQ(examples()[0].id(), "size/npz/native");
  EXPECT_EQ(examples()[3].id(), "damage/hdf5/bitrift/zeroed");
  EXPECT_EQ(examples()[4].id(), "damage/hdf5/bitrift/metadata/17");
  EXPECT_EQ(examples()[5].id(), "kill/pytorch/native/0");
  EXPECT_EQ(examples()[6].id(), "kill/pytorch/native/2/half");
  EXPECT_EQ(examples()[9].id(), "replay/dcp/native/3");
  const record::Json replay = to_json(examples()[9]);
  EXPECT_EQ(replay["change"]["mask"], "0x8000000000000000");
  EXPECT_EQ(replay["outcome"], "SDC");
  for (const char* mask : {"80", "0x", "0x0", "0x1g", "0x10000000000000000"}) {
    record::Json other = replay;
    other["change"]["mask"] = mask;
    EXPECT_ERROR((void)study_row_from_json(other), bad_file, "is not a mask");
  }
}

TEST(StudyJournal, KeepsRowsAndCutsATornLine) {
  const Scratch scratch;
  const auto path = scratch / "rows.jsonl";
  {
    StudyJournal journal(path);
    for (const StudyRow& row : examples()) journal.append(row);
  }
  const std::string whole = bytes_of(path);
  write_bytes(path, whole.substr(0, whole.size() - 9));
  StudyJournal journal(path);
  EXPECT_GT(journal.torn_bytes(), 0);
  ASSERT_EQ(journal.rows().size(), examples().size() - 1);
  EXPECT_EQ(journal.find(examples().back().id()), nullptr);
  journal.append(examples().back());
  journal.sync();
  EXPECT_EQ(bytes_of(path), whole);
  EXPECT_EQ(*journal.find("size/npz/native"), examples().front());
}

TEST(StudyJournal, DamageAndRepetitionAreRefusedWithTheirLine) {
  const Scratch scratch;
  const auto path = scratch / "rows.jsonl";
  {
    StudyJournal journal(path);
    for (const StudyRow& row : examples()) journal.append(row);
  }
  std::string text = bytes_of(path);
  const std::string first = text.substr(0, text.find('\n') + 1);
  write_bytes(path, text + first);
  EXPECT_ERROR(StudyJournal{path}, bad_file, "rows.jsonl:12: size/npz/native is there twice");
  text[first.size() + 60] ^= 1;
  write_bytes(path, text);
  EXPECT_ERROR(StudyJournal{path}, bad_file, "rows.jsonl:2");
}

using Digests = std::map<std::string, std::string>;

TEST(Judge, TellsTheOutcomesApart) {
  const Digests saved = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  const auto outcome = [&](const ReaderAnswer& answer) { return judge(answer, saved).outcome; };
  EXPECT_EQ(outcome(ReaderContents{saved}), DamageOutcome::same);
  EXPECT_EQ(outcome(ReaderRefused{"E: x"}), DamageOutcome::detected);
  EXPECT_EQ(outcome(ReaderDied{{0, 11}}), DamageOutcome::crash);
  EXPECT_EQ(outcome(ReaderHung{}), DamageOutcome::hang);
  EXPECT_EQ(judge(ReaderDied{{0, 11}}, saved).message, "signal 11 (Segmentation fault)");
  EXPECT_EQ(judge(ReaderRefused{"E: x"}, saved).message, "E: x");
}

TEST(Judge, AnotherValueNameOrNumberOfTensorsIsSilentlyWrong) {
  const Digests saved = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  const Judged other = judge(ReaderContents{{{"a", "1"}, {"b", "x"}, {"c", "3"}}}, saved);
  EXPECT_EQ(other.outcome, DamageOutcome::silently_wrong);
  EXPECT_EQ(other.message, "1 differ: b");
  EXPECT_EQ(other.missing, 0);
  const Judged renamed = judge(ReaderContents{{{"a", "1"}, {"b", "2"}, {"d\n", "3"}}}, saved);
  EXPECT_EQ(renamed.outcome, DamageOutcome::silently_wrong);
  EXPECT_EQ(renamed.message, "1 missing: c; 1 unknown: d?");
  EXPECT_EQ(renamed.missing, 1);
  const Judged none = judge(ReaderContents{}, saved);
  EXPECT_EQ(none.outcome, DamageOutcome::silently_wrong);
  EXPECT_EQ(none.message, "3 missing: a, b, ...");
  EXPECT_EQ(judge(ReaderContents{{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}}}, saved).outcome,
            DamageOutcome::silently_wrong);
}

}  // namespace
}  // namespace bitrift::study
