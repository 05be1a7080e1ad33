#include "campaign/shard/shard_journals.h"

#include <fstream>

#include <gmock/gmock.h>

#include "campaign/plan/ends.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/ledger.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::shard_journals_test {
namespace {

using record::TrialRecord;
using ::testing::HasSubstr;
using testing::row;
using testing::TemporaryFolder;
using tests::error_of;

void append(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

std::string line(const TrialRecord& record) { return journal_line(record::to_json(record)) + "\n"; }

std::filesystem::path journal_of(const std::filesystem::path& shards, int shard, int start) {
  return numbered_folder(shard_folder(shards, shard, 3), start) / "trials.jsonl";
}

template <typename Action>
std::string misbehaviour_of(Action&& action) {
  try {
    action();
  } catch (const Misbehaviour& problem) {
    return problem.what();
  }
  return "";
}

TEST(JournalTail, LinesAreTakenOnceTheyAreWhole) {
  const TemporaryFolder place;
  const auto path = place / "trials.jsonl";
  JournalTail tail(path);
  tail.refresh();  // not there yet
  EXPECT_EQ(tail.bytes(), 0U);
  const std::string second = line(row("a", "s", 1));
  append(path, line(row("a", "s", 0)) + second.substr(0, 30));
  tail.refresh();
  EXPECT_NE(tail.rows().find({"a", "s", 0}), nullptr);
  EXPECT_EQ(tail.rows().find({"a", "s", 1}), nullptr);
  append(path, second.substr(30, second.size() - 31));
  tail.refresh();
  EXPECT_EQ(tail.rows().find({"a", "s", 1}), nullptr) << "its line end is missing";
  append(path, "\n");
  tail.refresh();
  EXPECT_NE(tail.rows().find({"a", "s", 1}), nullptr);
  EXPECT_EQ(tail.bytes(), std::filesystem::file_size(path));
  EXPECT_EQ(tail.problem(), "");
}

TEST(JournalTail, RetractionThatComesLaterCounts) {
  const TemporaryFolder place;
  const auto path = place / "trials.jsonl";
  Journal writer(path);
  JournalTail tail(path);
  writer.append(row("a", "s", 0));
  tail.refresh();
  EXPECT_NE(tail.rows().find({"a", "s", 0}), nullptr);
  writer.retract({"a/s/0"}, "drill");
  tail.refresh();
  EXPECT_EQ(tail.rows().find({"a", "s", 0}), nullptr);
  writer.append(row("a", "s", 0));
  tail.refresh();
  EXPECT_NE(tail.rows().find({"a", "s", 0}), nullptr);
}

TEST(JournalTail, WaitsBeforeALineThatCannotBeReadUntilItCan) {
  const TemporaryFolder place;
  const auto path = place / "trials.jsonl";
  const std::string first = line(row("a", "s", 0));
  const std::string second = line(row("a", "s", 1));
  // What a network file system may show for a moment: the end of the file, but zeros before it.
  append(path, std::string(first.size(), '\0') + "\n" + second);
  JournalTail tail(path);
  tail.refresh();
  EXPECT_EQ(tail.bytes(), 0U);
  EXPECT_THAT(tail.problem(), HasSubstr("trials.jsonl:1: "));
  std::ofstream(path, std::ios::binary) << first << second;
  tail.refresh();
  EXPECT_EQ(tail.problem(), "");
  EXPECT_NE(tail.rows().find({"a", "s", 0}), nullptr);
  EXPECT_NE(tail.rows().find({"a", "s", 1}), nullptr);
}

TEST(RowUnion, EqualDoublesAreDroppedWhateverTheirHostAndTime) {
  TrialRecord other = row("a", "s", 0);
  other.host = "elsewhere";
  other.seconds = 9;
  RowUnion all;
  all.add({row("a", "s", 0), row("a", "s", 1)}, "1-of-2/0001");
  all.add({other, row("a", "s", 2)}, "2-of-2/0001");
  EXPECT_EQ(all.rows().size(), 3U);
  EXPECT_EQ(all.doubles(), 1U);
  EXPECT_EQ(all.rows().front().host, "");
}

TEST(RowUnion, UnequalDoublesAreRefusedWithIdKeyAndBothJournals) {
  TrialRecord other = row("a", "s", 1);
  other.host = "elsewhere";
  other.result->final_digest = "e";
  RowUnion all;
  all.add({row("a", "s", 0), row("a", "s", 1)}, "1-of-2/0001");
  const std::string text = misbehaviour_of([&] { all.add({other}, "2-of-2/0003"); });
  EXPECT_THAT(text, HasSubstr("a/s/1: "));
  EXPECT_THAT(text, HasSubstr("result.final_digest is \"d\" in 1-of-2/0001"));
  EXPECT_THAT(text, HasSubstr("\"e\" in 2-of-2/0003 (host elsewhere)"));
}

TEST(ShardJournals, FindsStartsThatComeLaterAndLeavesItsOwnOut) {
  const TemporaryFolder place;
  append(journal_of(place.path(), 1, 1), line(row("a", "s", 0)));
  append(journal_of(place.path(), 2, 1), line(row("a", "s", 1)));
  append(journal_of(place.path(), 2, 2), line(row("a", "s", 2)));
  ShardJournals journals(place.path(), 3);
  journals.leave_out("2-of-3/0002");
  journals.refresh();
  EXPECT_EQ(journals.starts().size(), 2U);
  EXPECT_EQ(journals.find({"a", "s", 2}), nullptr);
  append(journal_of(place.path(), 1, 2), line(row("a", "s", 3)));
  append(journal_of(place.path(), 3, 1), line(row("a", "s", 4)));
  journals.refresh();
  EXPECT_EQ(journals.starts().size(), 4U);
  EXPECT_NE(journals.find_in(1, {"a", "s", 3}), nullptr);
  EXPECT_EQ(journals.find_in(2, {"a", "s", 3}), nullptr);
  EXPECT_NE(journals.find({"a", "s", 4}), nullptr);
}

TEST(ShardJournals, DamageIsRefusedByFileAndLine) {
  const TemporaryFolder place;
  append(journal_of(place.path(), 1, 1), line(row("a", "s", 0)) + "rubbish\n" + line(row("a", "s", 1)));
  ShardJournals journals(place.path(), 3);
  journals.refresh();
  EXPECT_THAT(error_of([&] { journals.refuse_damage(); }), HasSubstr("1-of-3/0001/trials.jsonl:2: "));
}

TEST(Ledger, KnowsItsOwnRowsFromThoseOfOthers) {
  const TemporaryFolder place;
  append(journal_of(place.path(), 1, 1), line(row("a", "control", 0, record::TrialKind::control)));
  append(journal_of(place.path(), 2, 1), line(row("a", "s", 1)));
  ShardJournals others(place.path(), 3);
  others.leave_out("2-of-3/0002");
  others.refresh();
  Journal own(place / "own.jsonl");
  Ledger ledger(own, &others, 2);
  own.append(row("a", "s", 2));
  EXPECT_NE(ledger.find({"a", "control", 0}), nullptr);
  EXPECT_EQ(ledger.find_own({"a", "control", 0}), nullptr) << "every shard runs its own controls";
  EXPECT_NE(ledger.find_own({"a", "s", 1}), nullptr) << "an earlier start of this shard";
  EXPECT_NE(ledger.find_own({"a", "s", 2}), nullptr);
  EXPECT_EQ(ledger.effective().size(), 3U);
}

}  // namespace
}  // namespace bitrift::campaign::shard_journals_test
