// Undo journals: their format, and that a damaged one is refused before a byte is written.
#include "inject/write/undo_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "inject/write/apply.h"
#include "unit/scratch.h"

namespace bitrift::inject::undo_journal_test {
namespace {

using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;

struct Part {
  std::uint64_t offset;
  std::string before, after;
};

std::string number(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

std::string payload_of(const std::vector<Part>& parts, const std::string& tail = "") {
  std::string bytes;
  for (const Part& part : parts)
    bytes += number(part.offset) + number(part.before.size()) + part.before + part.after;
  return bytes + tail;
}

/// A journal as docs/faults.md has it.
std::string journal_of(std::uint64_t file_bytes, const std::string& ranges, const std::string& payload,
                       std::size_t tail = 0, const std::string& schema = "bitrift/undo/2") {
  return fmt::format(R"({{"crc32c":"{:08x}","file_bytes":{},"ranges":{},"schema":"{}","tail":{}}})",
                     crc32c(payload.data(), payload.size()), file_bytes, ranges, schema, tail) +
         "\n" + payload;
}

/// A file of 300 bytes of which 9 in three ranges were altered, and which got a tail.
class Altered : public ::testing::Test {
 protected:
  explicit Altered(std::string tail = "") : tail_(std::move(tail)) {
    for (int i = 0; i < 300; ++i) before_ += static_cast<char>(i * 7 + 1);
    after_ = before_;
    for (const auto& [offset, size] : {std::pair{0, 2}, {100, 4}, {297, 3}}) {
      const auto at = static_cast<std::size_t>(offset);
      Part part{at, before_.substr(at, static_cast<std::size_t>(size)), {}};
      for (const char byte : part.before) part.after += static_cast<char>(byte ^ 0x55);
      after_.replace(at, part.after.size(), part.after);
      parts_.push_back(part);
    }
    after_ += tail_;
    write_bytes(file_, after_);
  }
  [[nodiscard]] std::string journal() const {
    return journal_of(300, "3", payload_of(parts_, tail_), tail_.size());
  }
  /// That undo refuses a journal, and leaves the file and the journal as they are.
  void expect_refused(const std::string& text, const std::string& what) const {
    write_bytes(undo_path(file_), text);
    try {
      static_cast<void>(undo(file_));
      ADD_FAILURE() << what << ": was applied";
      write_bytes(file_, after_);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported ||
                  error.code() == ErrorCode::conflict)
          << what << ": " << error.what();
    }
    ASSERT_EQ(bytes_of(file_), after_) << what;
    ASSERT_EQ(bytes_of(undo_path(file_)), text) << what;
  }
  void expect_every_damage_refused() const {
    const std::string whole = journal();
    for (std::size_t at = 0; at < whole.size(); ++at) {
      // A checksum covers what follows the line; of the line every bit counts.
      for (int bit = 0; bit<8; bit += at> whole.find('\n') ? 7 : 1) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
        expect_refused(damaged, fmt::format("bit {} of byte {}", bit, at));
      }
    }
    for (std::size_t length = 0; length < whole.size(); ++length)
      expect_refused(whole.substr(0, length), fmt::format("the first {} bytes", length));
    for (const char* more : {"x", "\n", "12345678"}) expect_refused(whole + more, "more bytes");
    write_bytes(undo_path(file_), whole);
    EXPECT_EQ(undo(file_), 9 + tail_.size());
    EXPECT_EQ(bytes_of(file_), before_);
    EXPECT_FALSE(std::filesystem::exists(undo_path(file_)));
  }

  Scratch scratch_;
  std::filesystem::path file_ = scratch_ / "f";
  std::string tail_, before_, after_;
  std::vector<Part> parts_;
};

class AlteredWithTail : public Altered {
 protected:
  AlteredWithTail() : Altered("a tail of other bytes") {}
};

TEST_F(Altered, NoDamageOfAJournalIsOverlooked) { expect_every_damage_refused(); }

TEST_F(AlteredWithTail, NoDamageOfAJournalIsOverlooked) { expect_every_damage_refused(); }

TEST_F(AlteredWithTail, AJournalHasTheDocumentedBytes) {
  UndoJournal journal;
  journal.file_bytes = 300;
  const auto bytes = [](const std::string& text) {
    return std::vector<std::uint8_t>(text.begin(), text.end());
  };
  for (const Part& part : parts_) journal.patch.add(part.offset, bytes(part.before), bytes(part.after));
  journal.patch.tail = bytes(tail_);
  write_journal(file_, journal);
  EXPECT_EQ(bytes_of(undo_path(file_)), this->journal());
  const UndoJournal back = read_journal(file_);
  EXPECT_EQ(back.file_bytes, 300U);
  EXPECT_EQ(back.patch.before, journal.patch.before);
  EXPECT_EQ(back.patch.after, journal.patch.after);
  EXPECT_EQ(back.patch.tail, journal.patch.tail);
  ASSERT_EQ(back.patch.ranges.size(), 3U);
  EXPECT_EQ(back.patch.ranges[2].offset, 297U);
}

TEST_F(Altered, RangesThatCannotBeAreRefusedWhateverTheirChecksum) {
  const Part good{10, "ab", "cd"};
  const auto refuse = [&](const std::string& ranges, const std::string& payload, const char* text) {
    expect_refused(journal_of(300, ranges, payload), text);
    EXPECT_ERROR(static_cast<void>(read_journal(file_)), bad_file, text);
  };
  refuse("2", payload_of({good, {11, "x", "y"}}), "invalid range");  // overlaps
  refuse("2", payload_of({good, {9, "x", "y"}}), "invalid range");   // descends
  refuse("1", payload_of({{10, "", ""}}), "invalid range");
  refuse("1", payload_of({{299, "ab", "cd"}}), "invalid range");  // ends past the end of the file
  refuse("1", payload_of({{~std::uint64_t{0}, "ab", "cd"}}), "invalid range");
  refuse("1", number(10) + number(~std::uint64_t{0}) + "abcd", "ends too early");
  refuse("2", payload_of({good}), "ends too early");
  refuse("-1", payload_of({good}), "ends too early");
  refuse("1", payload_of({good}) + "x", "longer than it says");
  refuse("\"1\"", payload_of({good}), "first line");
  expect_refused(journal_of(300, "3", payload_of(parts_), 0, "bitrift/undo/3"), "schema");
  EXPECT_ERROR(static_cast<void>(read_journal(file_)), unsupported, "its schema is bitrift/undo/3");
}

TEST_F(AlteredWithTail, AnyPartOfTheWritingIsTakenBack) {
  // Of the tail, what is not written may be missing or zero.
  const std::string with_hole = tail_.substr(0, 4) + std::string(3, '\0');
  for (const std::string& tail : {std::string(), tail_.substr(0, 7), with_hole, tail_}) {
    for (unsigned written = 0; written < 8; ++written) {  // which of the three ranges
      std::string found = before_ + tail;
      std::uint64_t changed = tail.size();
      for (unsigned i = 0; i < 3; ++i) {
        if ((written >> i & 1) == 0) continue;
        found.replace(parts_[i].offset, parts_[i].after.size(), parts_[i].after);
        changed += parts_[i].after.size();
      }
      write_bytes(file_, found);
      write_bytes(undo_path(file_), journal());
      const UndoJournal journal = read_journal(file_);
      const FileRun fd({file_}, O_RDWR);
      const bool all = written == 7 && tail == tail_;
      EXPECT_EQ(compare_with(journal, fd), all            ? UndoState::complete
                                           : changed == 0 ? UndoState::untouched
                                                          : UndoState::partly);
      EXPECT_EQ(take_back(journal, fd), changed);
      EXPECT_EQ(bytes_of(file_), before_);
      EXPECT_EQ(compare_with(journal, fd), UndoState::untouched);
    }
  }
}

TEST_F(AlteredWithTail, AFileThatWasChangedSinceIsRefused) {
  const auto refuse = [&](const std::string& found, const std::string& text) {
    write_bytes(file_, found);
    write_bytes(undo_path(file_), journal());
    EXPECT_ERROR(static_cast<void>(undo(file_)), conflict, text);
    EXPECT_EQ(bytes_of(file_), found);
    EXPECT_TRUE(std::filesystem::exists(undo_path(file_)));
  };
  for (const std::size_t at : {0U, 103U, 299U}) {
    std::string found = after_;
    found[at] = static_cast<char>(found[at] ^ 1);
    refuse(found, fmt::format("byte {} is ", at));
  }
  std::string found = after_;
  found[305] = 'z';
  refuse(found, "byte 305 is 0x7a");
  refuse(before_.substr(0, 299), "has 299 bytes, 300 when it was altered");
  refuse(after_ + "x", "has 322 bytes, 300 when it was altered");
  // A byte that is in no range is not looked at.
  found = after_;
  found[50] = static_cast<char>(found[50] ^ 1);
  write_bytes(file_, found);
  EXPECT_EQ(undo(file_), 9 + tail_.size());
  EXPECT_EQ(bytes_of(file_)[50], found[50]);
}

TEST(UndoPath, OfALinkIsThatOfTheFile) {
  const Scratch scratch;
  write_bytes(scratch / "f", "x");
  std::filesystem::create_symlink("f", scratch / "link");
  EXPECT_EQ(undo_path(scratch / "link"), std::filesystem::canonical(scratch / "f").string() + ".undo");
  EXPECT_EQ(undo_path(scratch / "none"), (scratch / "none").string() + ".undo");
}

TEST(UndoPath, WithoutAJournalThereIsNothingToUndo) {
  const Scratch scratch;
  write_bytes(scratch / "f", "x");
  EXPECT_ERROR(static_cast<void>(undo(scratch / "f")), not_found, "has no injection to undo");
  remove_journal(scratch / "f");  // nothing to remove is not an error
  std::filesystem::create_directory(scratch / "f.undo");
  EXPECT_ERROR(static_cast<void>(undo(scratch / "f")), bad_file, "is not a regular file");
  EXPECT_EQ(bytes_of(scratch / "f"), "x");
}

}  // namespace
}  // namespace bitrift::inject::undo_journal_test
