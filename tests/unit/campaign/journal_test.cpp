#include "campaign/journal/journal.h"

#include <fstream>

#include <gmock/gmock.h>

#include "core/file.h"
#include "record/json/json_diff.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::journal_test {
namespace {

using record::TrialRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::row;
using testing::TemporaryFolder;
using tests::error_of;

std::vector<std::string> ids(const JournalRows& rows) {
  std::vector<std::string> result;
  for (const TrialRecord& one : rows.effective()) result.push_back(one.id.text());
  return result;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void append_rows(const std::filesystem::path& path, std::uint64_t first, std::uint64_t count) {
  Journal journal(path);
  for (std::uint64_t draw = first; draw < first + count; ++draw) journal.append(row("a", "s", draw));
}

TEST(JournalLine, HasTheChecksumOfTheRowsOwnBytes) {
  // CRC-32C of the ten bytes {"kind":1}, computed by an independent program.
  EXPECT_EQ(journal_line({{"kind", 1}}), R"({"crc32c":"e6e23155","row":{"kind":1}})");
  EXPECT_EQ(row_of_line(R"({"crc32c":"e6e23155","row":{"kind":1}})", "x"), record::Json({{"kind", 1}}));
}

TEST(JournalLine, EverySingleBitFlipIsFound) {
  const std::string line = journal_line(record::to_json(row("a", "s", 3)));
  for (std::size_t bit = 0; bit < line.size() * 8; ++bit) {
    std::string damaged = line;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::string text = error_of([&] { static_cast<void>(row_of_line(damaged, "j:5")); });
    // A checksum digit may change its case and still say the same.
    if (text.empty()) {
      EXPECT_EQ(row_of_line(damaged, "j:5"), row_of_line(line, "j:5"));
    } else {
      EXPECT_THAT(text, ::testing::StartsWith("j:5: "));
    }
  }
}

TEST(Journal, ADamagedLineIsNamedByItsNumberWhereverItIs) {
  const TemporaryFolder folder;
  std::string text;
  for (std::uint64_t draw = 0; draw < 4500; ++draw) {  // blocks of 2000 lines are read side by side
    const std::string line = journal_line(record::to_json(row("a", "s", draw)));
    text += (draw + 1 == 4321 ? "x" : "") + line + "\n";
  }
  write(folder / "j", text);
  EXPECT_THAT(error_of([&] { static_cast<void>(read_journal(folder / "j")); }), HasSubstr("j:4321: "));
}

TEST(Journal, RowsComeBackWithTheirVolatileParts) {
  const TemporaryFolder folder;
  TrialRecord written = row("a", "s", 0);
  written.started = "2026-01-01T00:00:00.000Z";
  written.attempts = 2;
  Journal(folder / "j").append(written);
  EXPECT_EQ(record::to_json(read_journal(folder / "j").effective().at(0)), record::to_json(written));
}

TEST(Journal, TornLastLineIsCutWhereverItIsTorn) {
  const TemporaryFolder folder;
  append_rows(folder / "whole", 0, 3);
  const std::string text = read_text(folder / "whole");
  const std::size_t third = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t size = third; size < text.size(); ++size) {
    const auto path = folder / "torn";
    write(path, text.substr(0, size));
    EXPECT_THAT(ids(read_journal(path)), ElementsAre("a/s/0", "a/s/1"));
    append_rows(path, 2, 1);
    EXPECT_EQ(read_text(path), text) << "torn after " << size << " bytes";
  }
}

TEST(Journal, FileThatIsOneTornLineBecomesEmpty) {
  const TemporaryFolder folder;
  write(folder / "j", R"({"crc32c":"00)");
  const Journal journal(folder / "j");
  EXPECT_EQ(journal.torn_bytes(), 13U);
  EXPECT_EQ(std::filesystem::file_size(folder / "j"), 0U);
}

TEST(Journal, DamageInTheMiddleIsReportedWithFileAndLineAndNothingIsCut) {
  const TemporaryFolder folder;
  append_rows(folder / "j", 0, 9);
  std::string text = read_text(folder / "j");
  std::size_t line_start = 0;
  for (int line = 1; line < 5; ++line) line_start = text.find('\n', line_start) + 1;
  text[line_start + 60] ^= 1;
  write(folder / "j", text);
  const auto expected = (folder / "j").string() + ":5: ";
  EXPECT_THAT(error_of([&] { static_cast<void>(read_journal(folder / "j")); }), HasSubstr(expected));
  EXPECT_THAT(error_of([&] { const Journal journal(folder / "j"); }), HasSubstr(expected));
  EXPECT_EQ(read_text(folder / "j"), text);
}

TEST(Journal, RowThatIsNoTrialIsReportedWithItsLine) {
  const TemporaryFolder folder;
  write(folder / "j", journal_line({{"kind", "trial"}}) + "\n");
  EXPECT_THAT(error_of([&] { static_cast<void>(read_journal(folder / "j")); }), HasSubstr("j:1: "));
}

TEST(Journal, OfTwoRowsOfOneIdTheFirstCounts) {
  const TemporaryFolder folder;
  append_rows(folder / "j", 0, 2);
  TrialRecord late = row("a", "s", 1);
  late.result->last_loss = "late";
  Journal(folder / "j").append(late);
  const JournalRows rows = read_journal(folder / "j");
  EXPECT_THAT(rows.duplicates(), ElementsAre("a/s/1"));
  EXPECT_EQ(rows.find({"a", "s", 1})->result->last_loss, "0x1p-2");
  EXPECT_EQ(rows.effective().size(), 2U);
}

TEST(Journal, RetractedRowIsGoneUntilItComesAgain) {
  const TemporaryFolder folder;
  append_rows(folder / "j", 0, 3);
  Journal(folder / "j").retract({"a/s/1", "a/s/7"}, "doubtful host");
  EXPECT_THAT(ids(read_journal(folder / "j")), ElementsAre("a/s/0", "a/s/2"));
  EXPECT_EQ(read_journal(folder / "j").find({"a", "s", 1}), nullptr);
  append_rows(folder / "j", 1, 1);
  EXPECT_THAT(ids(read_journal(folder / "j")), ElementsAre("a/s/0", "a/s/2", "a/s/1"));
  EXPECT_EQ(read_journal(folder / "j").retracted(), 1U);
  EXPECT_TRUE(read_journal(folder / "j").duplicates().empty());
}

TEST(Journal, FullDiskIsAnErrorThatNamesFileAndReason) {
  const std::string text = error_of([] {
    LineFile file("/dev/full");
    file.append("x");
  });
  EXPECT_THAT(text, HasSubstr("/dev/full"));
  EXPECT_THAT(text, HasSubstr("No space left on device"));
}

TEST(Journal, MissingFileSaysWhatToDo) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { static_cast<void>(read_journal(folder / "none")); }),
              HasSubstr("bitrift campaign run"));
}

TEST(JournalDifference, OrderAndVolatileFieldsDoNotCount) {
  TrialRecord later = row("a", "s", 1);
  later.started = "later";
  later.host = "elsewhere";
  later.seconds = 9;
  later.attempts = 3;
  EXPECT_EQ(journal_difference({row("a", "s", 0), row("a", "s", 1)}, {later, row("a", "s", 0)}),
            std::nullopt);
}

TEST(JournalDifference, FirstDifferingIdAndKeyAreNamed) {
  TrialRecord other = row("a", "s", 1);
  other.result->steps = 7;
  const auto difference = journal_difference({row("a", "s", 0), row("a", "s", 1)}, {row("a", "s", 0), other});
  EXPECT_EQ(difference, "a/s/1: result.steps is 20 in the first journal and 7 in the second");
}

TEST(JournalDifference, RowsOfOneSideOnlyAreNamed) {
  EXPECT_EQ(journal_difference({row("a", "s", 0)}, {}), "a/s/0: only in the first journal");
  EXPECT_EQ(journal_difference({}, {row("a", "s", 0)}), "a/s/0: only in the second journal");
}

TEST(JsonDifference, NamesTheFirstKeyOnEitherSide) {
  const record::Json first = {{"a", 1}, {"b", {{"c", {1, 2}}}}};
  EXPECT_EQ(json_difference(first, first).has_value(), false);
  EXPECT_EQ(json_difference(first, {{"a", 1}, {"b", {{"c", {1, 3}}}}})->key, "b.c[1]");
  EXPECT_EQ(json_difference(first, {{"a", 1}, {"b", {{"c", {1, 2, 4}}}}})->key, "b.c[2]");
  EXPECT_EQ(json_difference(first, {{"b", first["b"]}})->second, "absent");
  EXPECT_EQ(json_difference(first, {{"a", 1}, {"aa", 2}, {"b", first["b"]}})->key, "aa");
}

}  // namespace
}  // namespace bitrift::campaign::journal_test
