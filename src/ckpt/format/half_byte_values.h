// Values that take half a byte each.
#pragma once

#include <memory>

#include "ckpt/format/shifted_values.h"
#include "core/number/number_format.h"

namespace bitrift::ckpt {

/// Whether two elements of this format share a byte of a file (float4_e2m1).
[[nodiscard]] bool takes_half_a_byte(const NumberFormat& format) noexcept;

/// Presents elements of four bits as one byte each. The inner values hold two in a byte, the first in the low
/// bits, and are not compressed.
class HalfByteValues final : public UnchunkedValues {
 public:
  explicit HalfByteValues(std::unique_ptr<Values> inner);

  [[nodiscard]] std::uint64_t bytes() const noexcept override { return 2 * inner_->bytes(); }
  [[nodiscard]] const std::string& unreadable() const noexcept override { return inner_->unreadable(); }
  [[nodiscard]] std::string unalterable() const override { return inner_->unalterable(); }
  void read(std::uint64_t first, std::span<std::uint8_t> out) const override;
  [[nodiscard]] std::uint64_t stride() const noexcept override { return 2; }
  [[nodiscard]] Spot locate(std::uint64_t byte) const override;
  [[nodiscard]] std::vector<StoredRun> stored_runs() const override { return inner_->stored_runs(); }

 private:
  std::unique_ptr<Values> inner_;
};

}  // namespace bitrift::ckpt
