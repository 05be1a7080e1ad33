#include "integrity/seal/tolerant_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace bitrift::integrity {
namespace {

constexpr std::size_t most_open = 256;  // a process may have 1024 open files by default

/// Reads what there is; the rest is zero.
void read_some(const FileDescriptor& fd, std::uint8_t* out, std::size_t bytes, std::uint64_t offset,
               const std::filesystem::path& path) {
  while (bytes > 0) {
    const ssize_t got = ::pread(fd.get(), out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io, "cannot read {}: {}", path.string(), errno_text(errno));
    if (got == 0) break;
    out += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  std::memset(out, 0, bytes);
}

}  // namespace

TolerantFiles::TolerantFiles(FileList files, std::uint64_t bytes) : files_(std::move(files)) {
  for (std::size_t i = 0; i < std::max<std::size_t>(files_.parts.size(), 1); ++i) {
    Open one;
    one.path = files_.path_of(i);
    one.first = files_.several() ? files_.parts[i].first : 0;
    one.end = files_.several() ? files_.parts[i].end() : bytes;
    try {
      FileDescriptor fd = open_file(one.path, O_RDONLY);
      one.now = size_of(fd, one.path);
      if (files_.parts.size() <= most_open) one.fd = std::move(fd);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
    }
    open_.push_back(std::move(one));
  }
}

std::optional<std::uint64_t> TolerantFiles::bytes_now(std::size_t part) const noexcept {
  return open_[part].now;
}

void TolerantFiles::read(std::uint8_t* out, std::size_t bytes, std::uint64_t offset) const {
  while (bytes > 0) {
    const auto at = std::partition_point(open_.begin(), open_.end(),
                                         [offset](const Open& one) { return one.end <= offset; });
    if (at == open_.end()) break;
    const std::size_t here = std::min<std::uint64_t>(bytes, at->end - offset);
    if (at->now && at->fd) {
      read_some(at->fd, out, here, offset - at->first, at->path);
    } else if (at->now) {
      read_some(open_file(at->path, O_RDONLY), out, here, offset - at->first, at->path);
    } else {
      std::memset(out, 0, here);
    }
    out += here;
    offset += here;
    bytes -= here;
  }
  std::memset(out, 0, bytes);
}

std::string TolerantFiles::stamp() const {
  std::string text;
  for (const Open& one : open_) {
    struct stat status {};
    if (::stat(one.path.c_str(), &status) != 0) continue;
    text += fmt::format("{} {} {} {} {}\n", status.st_dev, status.st_ino, status.st_size,
                        status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  }
  return text;
}

}  // namespace bitrift::integrity
