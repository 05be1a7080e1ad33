// Values in one of several files, and values that are spread over several pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/tensor_info.h"
#include "ckpt/format/values.h"

namespace bitrift::ckpt {

/// Values of a set of files, in which no chunk is altered.
class UnchunkedValues : public Values {
 public:
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept override { return 0; }
  [[nodiscard]] std::vector<std::uint8_t> decode(const h5map::Chunk& chunk) const override;
  [[nodiscard]] EncodedChunk recode(const h5map::Chunk& chunk,
                                    const h5map::ValueChange& change) const override;
};

/// The values of a file whose first byte is byte `base` of all files. Compressed ones are read, and not
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
