// The two datasets of an HDF5 checkpoint that hold the checksums (docs/checkpoint-format.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ckpt/tensor.h"
#include "h5/new_dataset.h"

namespace bitrift::ckpt {

/// The checksums of tensors that are sorted by path.
class ChecksumList {
 public:
  explicit ChecksumList(const std::vector<TensorMeta>& metas);

  /// checksum/path and its content: all paths, padded with zeros to the length of the longest.
  [[nodiscard]] h5::NewDataset names() const;
  [[nodiscard]] std::vector<std::uint8_t> padded_names() const;
  /// checksum/crc32c, and a content of it.
  [[nodiscard]] h5::NewDataset sums() const;
  [[nodiscard]] static std::vector<std::uint8_t> bytes_of(std::span<const std::uint32_t> sums);

 private:
  const std::vector<TensorMeta>& metas_;
  std::size_t width_ = 0;
};

}  // namespace bitrift::ckpt
