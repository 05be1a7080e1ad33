// Writes a file without the page cache.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>

#include "core/file.h"
#include "sink/buffered_file.h"
#include "sink/sink.h"

namespace bitrift::ckpt {

/// Collects consecutive writes in an aligned buffer and writes whole blocks with O_DIRECT. This takes less
/// processor time, and leaves the page cache to other programs. The first and the last block of a piece go
/// through the page cache unless they are full. If the file system refuses O_DIRECT, it says so once in the
/// log and works like PlainSink. Throws Error(bad_input) if the target is not a regular file.
class DirectSink final : public Sink {
 public:
  explicit DirectSink(std::filesystem::path target);
  void begin(std::uint64_t size) override;
  void write(std::uint64_t offset, std::span<const std::uint8_t> bytes) override;
  void commit() override;
  [[nodiscard]] const std::filesystem::path& target() const noexcept override { return target_; }

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const noexcept { std::free(memory); }
  };

  void flush();
  void write_blocks(std::uint64_t offset, std::span<const std::uint8_t> blocks);
  void fall_back();
  [[nodiscard]] std::span<const std::uint8_t> held(std::uint64_t from, std::uint64_t to) const;

  std::filesystem::path target_;
  std::optional<PendingFile> pending_;
  std::optional<BufferedFile> buffered_;
  FileDescriptor direct_;  // closed: everything goes through the page cache
  std::unique_ptr<std::uint8_t, Free> buffer_;
  std::uint64_t base_ = 0;              // place of the buffer in the file, at the start of a block
  std::uint64_t start_ = 0, stop_ = 0;  // number of bytes of the file in it
};

}  // namespace bitrift::ckpt
