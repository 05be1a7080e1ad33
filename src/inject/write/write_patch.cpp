#include "inject/write/write_patch.h"

#include <algorithm>

#include "core/error.h"
#include "inject/write/patch.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Range = Patch::Range;

constexpr const char* changed = "the file was changed by another program; nothing was written";
constexpr const char* unread = "reading it back gives other bytes";

// Ranges that are close together are read, and written, at once: a window of this many bytes with that many
// ranges costs less than a call for each.
constexpr std::uint64_t window_bytes = std::uint64_t{256} << 10U;
constexpr std::size_t fewest_in_window = 16;

/// One past the last range of the window that begins with range i; i + 1 where single writes are cheaper. A
/// window lies in one file, because a file without a range must not be written to.
std::size_t window_end(const FileList& files, const std::vector<Range>& ranges, std::size_t i) {
  std::uint64_t most = ranges[i].offset + window_bytes;
  if (files.several()) most = std::min(most, files.parts[files.part_of(ranges[i].offset)].end());
  std::size_t end = i + 1;
  while (end < ranges.size() && ranges[end].end() <= most) ++end;
  return end - i < fewest_in_window ? i + 1 : end;
}

void expect_bytes(const std::uint8_t* found, const FileRun& file, std::uint64_t offset,
                  std::span<const std::uint8_t> expected, ErrorCode code, const char* text) {
  const auto at = std::mismatch(expected.begin(), expected.end(), found);
  if (at.first == expected.end()) return;
  fail(code, "{} is {:#04x}, not {:#04x}: {}",
       file.files().place(offset + static_cast<std::uint64_t>(at.second - found)), *at.second, *at.first,
       text);
}

void expect_all(const FileRun& file, const Patch& patch, const Bytes& side, ErrorCode code,
                const char* text) {
  read_ranges(file, patch.ranges, [&](const Range& range, const std::uint8_t* found) {
    expect_bytes(found, file, range.offset, {side.data() + range.at, range.bytes}, code, text);
  });
}

void expect_tail(const FileRun& file, const Patch& patch, bool there, ErrorCode code, const char* text) {
  if (patch.tail.empty()) return;
  const std::uint64_t expected = patch.file_bytes + (there ? patch.tail.size() : 0);
  if (const std::uint64_t size = file.bytes(); size != expected) {
    fail(code, "{}: has {} bytes, not {}: {}", file.files().root.string(), size, expected, text);
  }
  if (!there) return;
  Bytes found(patch.tail.size());
  file.read(found.data(), found.size(), patch.file_bytes);
  expect_bytes(found.data(), file, patch.file_bytes, patch.tail, code, text);
}

}  // namespace

void read_ranges(const FileRun& file, const std::vector<Range>& ranges, const RangeVisitor& visit) {
  Bytes window;
  for (std::size_t i = 0; i < ranges.size();) {
    const std::size_t end = window_end(file.files(), ranges, i);
    const std::uint64_t first = ranges[i].offset;
    window.resize(ranges[end - 1].end() - first);
    file.read(window.data(), window.size(), first);
    for (; i < end; ++i) visit(ranges[i], window.data() + (ranges[i].offset - first));
  }
}

void write_ranges(const FileRun& file, const std::vector<Range>& ranges, const Bytes& bytes) {
  Bytes window;
  for (std::size_t i = 0; i < ranges.size();) {
    const std::size_t end = window_end(file.files(), ranges, i);
    if (end == i + 1) {
      file.write(bytes.data() + ranges[i].at, ranges[i].bytes, ranges[i].offset);
      i = end;
      continue;
    }
    const std::uint64_t first = ranges[i].offset;
    window.resize(ranges[end - 1].end() - first);
    file.read(window.data(), window.size(), first);
    for (; i < end; ++i) {
      std::copy_n(bytes.data() + ranges[i].at, ranges[i].bytes, window.data() + (ranges[i].offset - first));
    }
    file.write(window.data(), window.size(), first);
  }
}

void write_compared(const FileRun& file, const Patch& patch) {
  // At no moment may anything point past the end of the file: the tail comes first and goes last.
  if (!patch.tail.empty()) file.write(patch.tail.data(), patch.tail.size(), patch.file_bytes);
  write_ranges(file, patch.ranges, patch.after);
  expect_all(file, patch, patch.after, ErrorCode::io, unread);
  expect_tail(file, patch, true, ErrorCode::io, unread);
}

void write_patch(const FileRun& file, const Patch& patch, bool backwards) {
  expect_all(file, patch, backwards ? patch.after : patch.before, ErrorCode::conflict, changed);
  expect_tail(file, patch, backwards, ErrorCode::conflict, changed);
  if (!backwards) return write_compared(file, patch);
  write_ranges(file, patch.ranges, patch.before);
  if (!patch.tail.empty()) file.truncate(patch.file_bytes);
  expect_all(file, patch, patch.before, ErrorCode::io, unread);
  expect_tail(file, patch, false, ErrorCode::io, unread);
}

}  // namespace bitrift::inject
