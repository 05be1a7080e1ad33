#include "inject/write/write_patch.h"

#include <algorithm>

#include <unistd.h>

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

/// One past the last range of the window that begins with range i; i + 1 where single writes are cheaper.
std::size_t window_end(const std::vector<Range>& ranges, std::size_t i) {
  std::size_t end = i + 1;
  while (end < ranges.size() && ranges[end].end() - ranges[i].offset <= window_bytes) ++end;
  return end - i < fewest_in_window ? i + 1 : end;
}

void expect_bytes(const std::uint8_t* found, const std::filesystem::path& path, std::uint64_t offset,
                  std::span<const std::uint8_t> expected, ErrorCode code, const char* text) {
  const auto at = std::mismatch(expected.begin(), expected.end(), found);
  if (at.first == expected.end()) return;
  fail(code, "{}: byte {} is {:#04x}, not {:#04x}: {}", path.string(),
       offset + static_cast<std::uint64_t>(at.second - found), *at.second, *at.first, text);
}

void expect_all(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch,
                const Bytes& side, ErrorCode code, const char* text) {
  read_ranges(fd, path, patch.ranges, [&](const Range& range, const std::uint8_t* found) {
    expect_bytes(found, path, range.offset, {side.data() + range.at, range.bytes}, code, text);
  });
}

void expect_tail(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch, bool there,
                 ErrorCode code, const char* text) {
  if (patch.tail.empty()) return;
  const std::uint64_t expected = patch.file_bytes + (there ? patch.tail.size() : 0);
  if (const std::uint64_t size = size_of(fd, path); size != expected) {
    fail(code, "{}: has {} bytes, not {}: {}", path.string(), size, expected, text);
  }
  if (!there) return;
  Bytes found(patch.tail.size());
  read_at(fd, found.data(), found.size(), patch.file_bytes, path);
  expect_bytes(found.data(), path, patch.file_bytes, patch.tail, code, text);
}

}  // namespace

void read_ranges(const FileDescriptor& fd, const std::filesystem::path& path,
                 const std::vector<Range>& ranges, const RangeVisitor& visit) {
  Bytes window;
  for (std::size_t i = 0; i < ranges.size();) {
    const std::size_t end = window_end(ranges, i);
    const std::uint64_t first = ranges[i].offset;
    window.resize(ranges[end - 1].end() - first);
    read_at(fd, window.data(), window.size(), first, path);
    for (; i < end; ++i) visit(ranges[i], window.data() + (ranges[i].offset - first));
  }
}

void write_ranges(const FileDescriptor& fd, const std::filesystem::path& path,
                  const std::vector<Range>& ranges, const Bytes& bytes) {
  Bytes window;
  for (std::size_t i = 0; i < ranges.size();) {
    const std::size_t end = window_end(ranges, i);
    if (end == i + 1) {
      write_at(fd, bytes.data() + ranges[i].at, ranges[i].bytes, ranges[i].offset, path);
      i = end;
      continue;
    }
    const std::uint64_t first = ranges[i].offset;
    window.resize(ranges[end - 1].end() - first);
    read_at(fd, window.data(), window.size(), first, path);
    for (; i < end; ++i) {
      std::copy_n(bytes.data() + ranges[i].at, ranges[i].bytes, window.data() + (ranges[i].offset - first));
    }
    write_at(fd, window.data(), window.size(), first, path);
  }
}

void write_compared(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch) {
  // At no moment may anything point past the end of the file: the tail comes first and goes last.
  write_at(fd, patch.tail.data(), patch.tail.size(), patch.file_bytes, path);
  write_ranges(fd, path, patch.ranges, patch.after);
  expect_all(fd, path, patch, patch.after, ErrorCode::io, unread);
  expect_tail(fd, path, patch, true, ErrorCode::io, unread);
}

void write_patch(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch,
                 bool backwards) {
  expect_all(fd, path, patch, backwards ? patch.after : patch.before, ErrorCode::conflict, changed);
  expect_tail(fd, path, patch, backwards, ErrorCode::conflict, changed);
  if (!backwards) return write_compared(fd, path, patch);
  write_ranges(fd, path, patch.ranges, patch.before);
  if (!patch.tail.empty() && ::ftruncate(fd.get(), static_cast<off_t>(patch.file_bytes)) != 0) {
    fail(ErrorCode::io, "{}: cannot be truncated to {} bytes: {}", path.string(), patch.file_bytes,
         errno_text(errno));
  }
  expect_all(fd, path, patch, patch.before, ErrorCode::io, unread);
  expect_tail(fd, path, patch, false, ErrorCode::io, unread);
}

}  // namespace bitrift::inject
