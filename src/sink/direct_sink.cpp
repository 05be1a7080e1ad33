#include "sink/direct_sink.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"

namespace bitrift::ckpt {
namespace {

// The alignment that O_DIRECT demands of offsets, lengths and memory: at most a page, on all local file
// systems.
constexpr std::size_t block_bytes = 4096;
constexpr std::size_t buffer_bytes = std::size_t{1} << 22;

std::uint64_t block_start(std::uint64_t offset) { return offset / block_bytes * block_bytes; }

bool refused(int error) { return error == EINVAL || error == EOPNOTSUPP; }

}  // namespace

DirectSink::DirectSink(std::filesystem::path target) : target_(std::move(target)) {}

void DirectSink::begin(std::uint64_t size) {
  pending_.emplace(target_);
  buffered_.emplace(open_file(pending_->path(), O_WRONLY), target_);
  buffered_->resize(size);
  direct_ = FileDescriptor(::open(pending_->path().c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  if (!direct_) {
    if (!refused(errno)) fail(ErrorCode::io, "cannot write {}: {}", target_.string(), errno_text(errno));
    return fall_back();
  }
  buffer_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(block_bytes, buffer_bytes)));
  if (!buffer_) throw std::bad_alloc();
}

void DirectSink::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (direct_ && !bytes.empty()) {
    if (offset != stop_ || stop_ == base_ + buffer_bytes) {
      flush();
      base_ = block_start(offset);
      start_ = stop_ = offset;
    }
    const std::size_t length = std::min<std::size_t>(bytes.size(), base_ + buffer_bytes - offset);
    std::memcpy(buffer_.get() + (offset - base_), bytes.data(), length);
    stop_ = offset += length;
    bytes = bytes.subspan(length);
  }
  buffered_->write(offset, bytes);
}

void DirectSink::commit() {
  flush();
  pending_->commit();
}

std::span<const std::uint8_t> DirectSink::held(std::uint64_t from, std::uint64_t to) const {
  return {buffer_.get() + (from - base_), static_cast<std::size_t>(to - from)};
}

void DirectSink::flush() {
  const std::uint64_t first = block_start(start_ + block_bytes - 1);
  const std::uint64_t last = block_start(stop_);
  if (first < last) {
    buffered_->write(start_, held(start_, first));
    write_blocks(first, held(first, last));
    buffered_->write(last, held(last, stop_));
  } else if (start_ < stop_) {
    buffered_->write(start_, held(start_, stop_));
  }
  start_ = stop_;
}

void DirectSink::write_blocks(std::uint64_t offset, std::span<const std::uint8_t> blocks) {
  while (direct_ && !blocks.empty()) {
    const ssize_t put = ::pwrite(direct_.get(), blocks.data(), blocks.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && refused(errno)) {
      fall_back();
      break;
    }
    if (put < 0) fail(ErrorCode::io, "cannot write {}: {}", target_.string(), errno_text(errno));
    const std::uint64_t whole = block_start(static_cast<std::uint64_t>(put));
    if (whole == 0) break;
    blocks = blocks.subspan(whole);
    offset += whole;
  }
  buffered_->write(offset, blocks);
}

void DirectSink::fall_back() {
  static std::atomic_flag said;
  if (!said.test_and_set())
    spdlog::info("{}: the file system refuses O_DIRECT; writing through the page cache", target_.string());
  direct_.close();
}

}  // namespace bitrift::ckpt
