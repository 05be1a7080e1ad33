// Values of a file that is a part of a larger whole: a file of a set, or a member of an archive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/format/values.h"

namespace bitrift::ckpt {

/// Values in which no chunk is altered.
class UnchunkedValues : public Values {
 public:
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept override { return 0; }
  [[nodiscard]] std::vector<std::uint8_t> decode(const h5map::Chunk& chunk) const override;
  [[nodiscard]] EncodedChunk recode(const h5map::Chunk& chunk,
                                    const h5map::ValueChange& change) const override;
};

/// The values of a file whose first byte is byte `base` of the whole. Compressed ones are read, and not
/// altered.
class ShiftedValues final : public UnchunkedValues {
 public:
  ShiftedValues(std::unique_ptr<Values> inner, std::uint64_t base);

  [[nodiscard]] std::uint64_t bytes() const noexcept override { return inner_->bytes(); }
  [[nodiscard]] const std::string& unreadable() const noexcept override { return inner_->unreadable(); }
  [[nodiscard]] std::string unalterable() const override;
  void read(std::uint64_t first, std::span<std::uint8_t> out) const override { inner_->read(first, out); }
  [[nodiscard]] std::uint64_t stride() const noexcept override { return inner_->stride(); }
  [[nodiscard]] Spot locate(std::uint64_t byte) const override;
  [[nodiscard]] std::vector<StoredRun> stored_runs() const override;

 private:
  std::unique_ptr<Values> inner_;
  std::uint64_t base_;
};

}  // namespace bitrift::ckpt
