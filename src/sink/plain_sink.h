// Writes a file through the page cache.
#pragma once

#include <optional>

#include "core/file.h"
#include "sink/buffered_file.h"
#include "sink/sink.h"

namespace bitrift::ckpt {

/// The sink for every file system. Throws Error(bad_input) if the target is not a regular file.
class PlainSink final : public Sink {
 public:
  explicit PlainSink(std::filesystem::path target);
  void begin(std::uint64_t size) override;
  void write(std::uint64_t offset, std::span<const std::uint8_t> bytes) override;
  void commit() override;
  [[nodiscard]] const std::filesystem::path& target() const noexcept override { return target_; }

 private:
  std::filesystem::path target_;
  std::optional<PendingFile> pending_;
  std::optional<BufferedFile> file_;
};

}  // namespace bitrift::ckpt
