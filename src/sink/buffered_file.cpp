#include "sink/buffered_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "sink/sink.h"

namespace bitrift::ckpt {
namespace {

constexpr std::size_t writeback_bytes = std::size_t{1} << 25;

}  // namespace

BufferedFile::BufferedFile(FileDescriptor fd, std::filesystem::path target)
    : fd_(std::move(fd)), target_(std::move(target)) {}

void BufferedFile::resize(std::uint64_t size) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0)
    fail(ErrorCode::io, "cannot write {}: {}", target_.string(), errno_text(errno));
}

void BufferedFile::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  for_each_piece(offset, bytes, [&](std::uint64_t at, std::span<const std::uint8_t> piece) {
    write_at(fd_, piece.data(), piece.size(), at, target_);
    begin_writeback(piece.size());
  });
}

void BufferedFile::sync() { sync_file(fd_, target_); }

// The disk works while memory is still being copied, so that the final sync has less to do. Only a hint:
// errors show in that sync.
void BufferedFile::begin_writeback(std::size_t length) {
  waiting_ += length;
  if (waiting_ < writeback_bytes) return;
  waiting_ = 0;
  (void)::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
}

}  // namespace bitrift::ckpt
