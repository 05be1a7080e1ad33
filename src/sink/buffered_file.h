// A temporary file of a sink, written through the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/file.h"

namespace bitrift::ckpt {

/// Writes at any offset, and starts the disk early. Throws Error(io) that names `target`.
class BufferedFile {
 public:
  BufferedFile(FileDescriptor fd, std::filesystem::path target);
  void resize(std::uint64_t size);
  void write(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  /// fsync(2).
  void sync();

 private:
  void begin_writeback(std::size_t length);

  FileDescriptor fd_;
  std::filesystem::path target_;
  std::size_t waiting_ = 0;  // bytes written since the last begin_writeback() that did something
};

}  // namespace bitrift::ckpt
