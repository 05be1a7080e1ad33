#include "campaign/journal/line_file.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"

namespace bitrift::campaign {
namespace {

// The end of the last whole line: 0 when there is none.
std::uint64_t end_of_last_line(const FileDescriptor& fd, std::uint64_t size,
                               const std::filesystem::path& path) {
  std::vector<char> piece(std::size_t{64} << 10U);
  while (size > 0) {
    const std::uint64_t count = std::min<std::uint64_t>(size, piece.size());
    read_at(fd, piece.data(), count, size - count, path);
    for (std::uint64_t i = count; i > 0; --i) {
      if (piece[i - 1] == '\n') return size - count + i;
    }
    size -= count;
  }
  return 0;
}

}  // namespace

LineFile::LineFile(std::filesystem::path path) : path_(std::move(path)) {
  const bool existed = std::filesystem::exists(path_);
  fd_ = open_file(path_, O_RDWR | O_CREAT);
  if (!existed) sync_folder_of(path_);
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) {
    fail(ErrorCode::io, "{}: cannot read its size: {}", path_.string(), errno_text(errno));
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  size_ = end_of_last_line(fd_, size, path_);
  torn_bytes_ = size - size_;
  if (torn_bytes_ > 0) {
    if (ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) {
      fail(ErrorCode::io, "{}: cannot remove its incomplete last line: {}", path_.string(),
           errno_text(errno));
    }
    sync_file(fd_, path_);
  }
}

LineFile::~LineFile() {
  try {
    sync();
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
}

void LineFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        pwrite(fd_.get(), text.data() + done, text.size() - done, static_cast<off_t>(size_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int reason = count < 0 ? errno : ENOSPC;
      // Best effort: a torn last line may stay, which the next start cuts off.
      [[maybe_unused]] const int ignored = ftruncate(fd_.get(), static_cast<off_t>(size_));
      fail(ErrorCode::io, "{}: cannot append: {}; free some disk space and run the same command to resume",
           path_.string(), errno_text(reason));
    }
    done += static_cast<std::size_t>(count);
  }
  size_ += text.size();
  if (!dirty_) dirty_since_ = std::chrono::steady_clock::now();
  dirty_ = true;
}

void LineFile::sync() {
  if (!dirty_) return;
  dirty_ = false;
  if (fdatasync(fd_.get()) != 0) {
    fail(ErrorCode::io, "{}: cannot sync: {}", path_.string(), errno_text(errno));
  }
}

void LineFile::sync_if_due() {
  using namespace std::chrono_literals;
  if (dirty_ && std::chrono::steady_clock::now() - dirty_since_ >= 100ms) sync();
}

}  // namespace bitrift::campaign
