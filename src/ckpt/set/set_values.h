// Values that are spread over several files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/shifted_values.h"
#include "ckpt/format/tensor_info.h"
#include "ckpt/format/values.h"

namespace bitrift::ckpt {

/// A box of a tensor: the index of its first element, its size in each dimension, and its values.
struct ValuePiece {
  std::vector<std::uint64_t> first, shape;
  std::unique_ptr<Values> values;
  /// Where its elements are among its values, if they are not row-major without gaps: TensorInfo::byte_of().
  std::optional<TensorInfo> order = {};
};

/// The values of a tensor that is cut into boxes, which fill it.
class PiecedValues final : public UnchunkedValues {
 public:
  /// `where` names the tensor in messages. The pieces' values must hold the elements of their boxes.
  PiecedValues(std::vector<std::uint64_t> shape, std::uint64_t element_bytes, std::vector<ValuePiece> pieces,
               std::string where);

  [[nodiscard]] std::uint64_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] const std::string& unreadable() const noexcept override { return unreadable_; }
  [[nodiscard]] std::string unalterable() const override;
  void read(std::uint64_t first, std::span<std::uint8_t> out) const override;
  [[nodiscard]] std::uint64_t stride() const noexcept override { return 1; }
  [[nodiscard]] Spot locate(std::uint64_t byte) const override;
  [[nodiscard]] std::vector<StoredRun> stored_runs() const override;

 private:
  struct Place {
    const ValuePiece* piece;
    std::uint64_t byte;  ///< in the piece
    std::uint64_t run;   ///< bytes from here on that follow each other in both
  };
  [[nodiscard]] Place place(std::uint64_t byte) const;

  std::vector<std::uint64_t> shape_;
  std::uint64_t element_bytes_;
  std::vector<ValuePiece> pieces_;
  std::string where_, unreadable_;
  std::uint64_t bytes_;
};

}  // namespace bitrift::ckpt
