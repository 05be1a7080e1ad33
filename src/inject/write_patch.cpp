#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "inject/apply.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Range = Patch::Range;

// Ranges that lie close together are read at once.
constexpr std::uint64_t window_bytes = std::uint64_t{256} << 10U;

std::uint64_t size_of(const FileDescriptor& fd, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(ErrorCode::io, "{}: {}", path.string(), errno_text(errno));
  return static_cast<std::uint64_t>(status.st_size);
}

void expect_bytes(const std::uint8_t* found, const std::filesystem::path& path, std::uint64_t offset,
                  const Bytes& expected, ErrorCode code, const char* text) {
  const auto at = std::mismatch(expected.begin(), expected.end(), found);
  if (at.first == expected.end()) return;
  fail(code, "{}: byte {} is {:#04x}, not {:#04x}: {}", path.string(),
       offset + static_cast<std::uint64_t>(at.second - found), *at.second, *at.first, text);
}

void expect_all(const FileDescriptor& fd, const std::filesystem::path& path, const std::vector<Range>& ranges,
                Bytes Range::*side, ErrorCode code, const char* text) {
  Bytes window;
  for (std::size_t i = 0; i < ranges.size();) {
    const std::uint64_t first = ranges[i].offset;
    std::size_t end = i + 1;
    const auto end_of = [&](std::size_t k) { return ranges[k].offset + ranges[k].before.size(); };
    while (end < ranges.size() && end_of(end) - first <= window_bytes) ++end;
    // A few that lie far apart cost less one by one.
    if (end - i < 16) end = i + 1;
    window.resize(end_of(end - 1) - first);
    read_at(fd, window.data(), window.size(), first, path);
    for (; i < end; ++i) {
      expect_bytes(window.data() + (ranges[i].offset - first), path, ranges[i].offset, ranges[i].*side, code,
                   text);
    }
  }
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

void write_patch(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch,
                 bool backwards) {
  constexpr const char* changed = "the file was changed by someone else; nothing was written";
  constexpr const char* unread = "what was written does not read back";
  const auto from = backwards ? &Range::after : &Range::before;
  const auto to = backwards ? &Range::before : &Range::after;
  expect_all(fd, path, patch.ranges, from, ErrorCode::conflict, changed);
  expect_tail(fd, path, patch, backwards, ErrorCode::conflict, changed);
  // Nothing may point behind the end of the file at any moment: the tail comes first and goes last.
  if (!backwards) write_at(fd, patch.tail.data(), patch.tail.size(), patch.file_bytes, path);
  for (const Range& range : patch.ranges) {
    write_at(fd, (range.*to).data(), (range.*to).size(), range.offset, path);
  }
  if (backwards && !patch.tail.empty() && ::ftruncate(fd.get(), static_cast<off_t>(patch.file_bytes)) != 0) {
    fail(ErrorCode::io, "{}: cannot be cut to {} bytes: {}", path.string(), patch.file_bytes,
         errno_text(errno));
  }
  expect_all(fd, path, patch.ranges, to, ErrorCode::io, unread);
  expect_tail(fd, path, patch, !backwards, ErrorCode::io, unread);
}

}  // namespace bitrift::inject
