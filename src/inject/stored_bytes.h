// The bytes of a dataset after its filters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace bitrift::inject {

/// True when chunks of the tensor's dataset go through filters, so that stored bytes are not values.
[[nodiscard]] bool has_filters(const ckpt::TensorInfo& tensor);
/// The part of the file that holds the bytes of a tensor whose values are stored as they are; see
/// record::AppliedFault::structure.
[[nodiscard]] std::string structure_of(const ckpt::TensorInfo& tensor);
/// The path of the dataset that a tensor is, or is a part of.
[[nodiscard]] const std::string& dataset_of(const ckpt::TensorInfo& tensor) noexcept;

/// The stored bytes of a chunked dataset, counted from 0: chunk by chunk, by ascending cell.
class StoredBytes {
 public:
  /// Throws Error(conflict) when the file has no chunked dataset with filters of this path,
  /// Error(unsupported) when not all of its chunks are stored.
  StoredBytes(const ckpt::Reader& reader, const std::string& dataset);

  [[nodiscard]] std::uint64_t bytes() const noexcept { return before_.back(); }
  struct Place {
    std::uint64_t chunk = 0;   ///< its cell in the grid of chunks, row-major
    std::uint64_t offset = 0;  ///< of the byte in the file
    std::uint64_t run = 0;     ///< bytes from here to the chunk's end
  };
  /// The place of byte i; i < bytes().
  [[nodiscard]] Place place(std::uint64_t i) const;
  /// Whether a byte of the file is one of them.
  [[nodiscard]] bool holds(std::uint64_t offset) const;

 private:
  std::vector<ckpt::Values::StoredRun> runs_;
  std::vector<std::uint64_t> before_;   // bytes of all chunks before each, and the total
  std::vector<std::size_t> by_offset_;  // chunks in the order of the file
};

}  // namespace bitrift::inject
