// Ranges of bytes on their way to a file: each test replays them on a text in memory.
#include "inject/write/write_patch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"
#include "unit/scratch.h"

namespace bitrift::inject::write_patch_test {
namespace {

using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;

constexpr std::uint64_t window = 256 << 10;  // bytes that are read or written at once, at most
constexpr std::uint64_t dense = 16;          // ranges that make a window

std::string random_bytes(std::uint64_t key, std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(random_u64(key, i, 0));
  return bytes;
}

struct Place {
  std::uint64_t offset, bytes;
};

/// A file, what is to become of it, and the patch that says so. The file ends with the last range.
class Case {
 public:
  Case(const Scratch& scratch, const std::vector<Place>& places, const std::string& tail = "")
      : path_(scratch / "f"),
        before_(random_bytes(1, places.back().offset + places.back().bytes)),
        after_(before_) {
    for (const Place& place : places) {
      for (std::uint64_t i = 0; i < place.bytes; ++i)
        after_[place.offset + i] = static_cast<char>(after_[place.offset + i] ^ 0x5a);
      patch_.add(place.offset, side(before_, place), side(after_, place));
    }
    after_ += tail;
    patch_.tail.assign(tail.begin(), tail.end());
    patch_.file_bytes = before_.size();
    write_bytes(path_, before_);
    open_.emplace(FileList{path_}, O_RDWR);
  }
  void expect_there_and_back() {
    expect_read(before_);
    write_patch(*open_, patch_, false);
    expect_file(after_);
    expect_read(after_);
    EXPECT_ERROR(write_patch(*open_, patch_, false), conflict, "nothing was written");
    expect_file(after_);
    write_patch(*open_, patch_, true);
    expect_file(before_);
    EXPECT_ERROR(write_patch(*open_, patch_, true), conflict, "nothing was written");
    expect_file(before_);
  }
  void expect_file(const std::string& expected) const {
    EXPECT_TRUE(bytes_of(path_) == expected) << "of " << patch_.ranges.size() << " ranges";
  }
  void expect_read(const std::string& expected) const {
    std::size_t next = 0;
    read_ranges(*open_, patch_.ranges, [&](const Patch::Range& range, const std::uint8_t* found) {
      ASSERT_LT(next, patch_.ranges.size());
      EXPECT_EQ(&range, &patch_.ranges[next++]);
      EXPECT_EQ(std::string(found, found + range.bytes), expected.substr(range.offset, range.bytes));
    });
    EXPECT_EQ(next, patch_.ranges.size());
  }
  static std::span<const std::uint8_t> side(const std::string& text, const Place& place) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()) + place.offset, place.bytes};
  }

  std::filesystem::path path_;
  std::string before_, after_;
  Patch patch_;
  std::optional<FileRun> open_;
};

/// `count` ranges of 3 bytes, of which the last ends `length` bytes after the first begins.
std::vector<Place> spread(std::uint64_t first, std::uint64_t count, std::uint64_t length) {
  std::vector<Place> places;
  for (std::uint64_t i = 0; i + 1 < count; ++i) places.push_back({first + i * ((length - 3) / count), 3});
  places.push_back({first + length - 3, 3});
  return places;
}

TEST(Patch, JoinsRangesThatTouch) {
  const Scratch scratch;
  const Case touching(scratch, {{4, 2}, {6, 3}, {10, 1}, {11, 1}});
  ASSERT_EQ(touching.patch_.ranges.size(), 2U);
  EXPECT_EQ(touching.patch_.ranges[0].offset, 4U);
  EXPECT_EQ(touching.patch_.ranges[0].bytes, 5U);
  EXPECT_EQ(touching.patch_.ranges[1].offset, 10U);
  EXPECT_EQ(touching.patch_.ranges[1].at, 5U);
  EXPECT_EQ(touching.patch_.ranges[1].end(), 12U);
  const auto after = touching.patch_.after_of(touching.patch_.ranges[1]);
  EXPECT_EQ(std::string(after.begin(), after.end()), touching.after_.substr(10, 2));
}

TEST(WritePatch, ReachesRangesNearAndFar) {
  const Scratch scratch;
  for (const std::uint64_t count : {std::uint64_t{2}, dense - 1, dense, dense + 1, std::uint64_t{500}}) {
    for (const std::uint64_t length : {window - 1, window, window + 1, 4 * window}) {
      Case(scratch, spread(0, count, length)).expect_there_and_back();
      Case(scratch, spread(777, count, length)).expect_there_and_back();
    }
  }
}

TEST(WritePatch, ReachesDenseRangesBeforeBetweenAndBehindLonelyOnes) {
  const Scratch scratch;
  std::vector<Place> places = {{0, 1}};
  for (const std::uint64_t start : {std::uint64_t{10}, 3 * window, 5 * window + 3}) {
    for (const Place& place : spread(start, 40, window / 2)) places.push_back(place);
    places.push_back({start + 2 * window - 9, 5});
  }
  Case(scratch, places).expect_there_and_back();
}

TEST(WritePatch, ARangeMayBeLongerThanAWindow) {
  const Scratch scratch;
  std::vector<Place> places = spread(5, 30, 400);
  places.push_back({1000, 2 * window});
  for (const Place& place : spread(1000 + 2 * window + 1, 30, 400)) places.push_back(place);
  Case(scratch, places).expect_there_and_back();
}

TEST(WritePatch, AnyMixtureOfGapsLeavesTheBytesBetween) {
  const Scratch scratch;
  const std::uint64_t gaps[] = {0, 1, 2, 9, 300, 4096, window / dense, window - 8, window + 1};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    std::vector<Place> places;
    std::uint64_t at = random_below(seed, 0, 0, 50);
    for (std::uint64_t i = 1; i < 120 && at < 8 * window; ++i) {
      places.push_back({at, 1 + random_below(seed, i, 1, 8)});
      // Mostly small gaps, so that windows are filled.
      at += places.back().bytes + gaps[random_below(seed, i, 2, i % 20 == 0 ? 9 : 5)];
    }
    Case(scratch, places, seed % 2 == 0 ? "" : "a tail").expect_there_and_back();
  }
}

TEST(WritePatch, ATailIsAppendedAndCutOff) {
  const Scratch scratch;
  Case grows(scratch, spread(0, 40, 5000), random_bytes(2, 70'000));
  grows.expect_there_and_back();
  // Somebody appended a byte: neither way is taken.
  write_bytes(grows.path_, grows.before_ + "x");
  EXPECT_ERROR(write_patch(*grows.open_, grows.patch_, false), conflict, "has 5001 bytes, not 5000");
  write_bytes(grows.path_, grows.after_ + "x");
  EXPECT_ERROR(write_patch(*grows.open_, grows.patch_, true), conflict, "has 75001 bytes, not 75000");
  std::string other = grows.after_;
  other[60'000] = static_cast<char>(other[60'000] ^ 1);
  write_bytes(grows.path_, other);
  EXPECT_ERROR(write_patch(*grows.open_, grows.patch_, true), conflict, "byte 60000 is");
  grows.expect_file(other);
}

TEST(WritePatch, AByteThatDiffersInAnyRangeStopsIt) {
  const Scratch scratch;
  for (const std::uint64_t length : {std::uint64_t{600}, 9 * window}) {
    Case one(scratch, spread(3, 20, length));
    for (const Patch::Range& range : one.patch_.ranges) {
      std::string other = one.before_;
      const std::uint64_t at = range.offset + 2;
      other[at] = static_cast<char>(other[at] ^ 0x80);
      write_bytes(one.path_, other);
      EXPECT_ERROR(write_patch(*one.open_, one.patch_, false), conflict,
                   "byte " + std::to_string(at) + " is");
      one.expect_file(other);
    }
  }
}

/// Ranges that are close together are written as one; a file between them that holds none stays untouched.
TEST(WriteRanges, AFileWithoutARangeIsNotWrittenTo) {
  const Scratch scratch;
  FileList files{scratch / "set"};
  std::filesystem::create_directory(files.root);
  std::string before;
  for (const char* name : {"a", "b", "c"}) {
    const std::string content = random_bytes(static_cast<std::uint64_t>(name[0]), 200);
    write_bytes(files.root / name, content);
    files.add(name, content.size());
    before += content;
  }
  std::filesystem::permissions(files.root / "b", std::filesystem::perms::owner_read);
  const auto untouched = std::filesystem::last_write_time(files.root / "b");
  Patch patch;
  std::string after = before;
  for (std::uint64_t at = 5; at < 600; at += 7) {
    if (at / 200 == 1) continue;
    after[at] = static_cast<char>(after[at] ^ 1);
    patch.add(at, Case::side(before, {at, 1}), Case::side(after, {at, 1}));
  }
  const auto together = [&] {
    return bytes_of(files.root / "a") + bytes_of(files.root / "b") + bytes_of(files.root / "c");
  };
  const FileRun run(files, O_RDWR);
  write_patch(run, patch, false);
  EXPECT_TRUE(together() == after);
  write_patch(run, patch, true);
  EXPECT_TRUE(together() == before);
  EXPECT_EQ(std::filesystem::last_write_time(files.root / "b"), untouched);
}

TEST(WriteRanges, AFileThatEndsBeforeARangeIsAnError) {
  const Scratch scratch;
  for (const std::uint64_t count : {std::uint64_t{2}, 2 * dense}) {
    const Case one(scratch, spread(3, count, 600));
    std::filesystem::resize_file(one.path_, 602);
    EXPECT_ERROR(read_ranges(*one.open_, one.patch_.ranges, [](const auto&, const auto*) {}), bad_file,
                 one.path_.string());
  }
}

}  // namespace
}  // namespace bitrift::inject::write_patch_test
