// The part of a checkpoint that one of several ranks holds.
#pragma once

#include <cstdint>
#include <vector>

#include "ckpt/reader.h"
#include "ckpt/tensor.h"

namespace bitrift::h5parallel {

/// Consecutive rows (indices of the first dimension) of a tensor; a scalar has one row.
struct Rows {
  std::uint64_t first = 0, count = 0;
  bool operator==(const Rows&) const = default;
};

/// The rows of rank `rank` of `ranks`: they are divided as evenly as possible, and the first ranks have the
/// longer parts.
[[nodiscard]] Rows rows_of(const std::vector<std::uint64_t>& shape, int rank, int ranks) noexcept;

/// A tensor that is written. Its meta is little-endian, as Reader gives values.
struct SourceTensor {
  const ckpt::TensorInfo* info = nullptr;  ///< of the reader
  ckpt::TensorMeta meta;
};

/// All tensors of a file, in path order; checksums and attributes are left out. Throws Error(unsupported) for
/// tensors that are not plain numbers, Error(bad_input) if there is none.
[[nodiscard]] std::vector<SourceTensor> tensors_of(const ckpt::Reader& source);

struct TensorPart {
  ckpt::TensorMeta meta;  ///< of the whole tensor
  Rows rows;
  std::vector<std::uint8_t> values;  ///< of these rows
};

/// The part of a rank of all tensors_of() a file. Throws as that and Reader do.
[[nodiscard]] std::vector<TensorPart> read_part(const ckpt::Reader& source, int rank, int ranks);

}  // namespace bitrift::h5parallel
