// The image of a checkpoint: the layout of its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::ckpt {

/// A file whose tensors are still to be filled in. It depends on names, formats, shapes and attributes only,
/// so one image serves every save of a training whose tensors keep their shapes.
struct Image {
  struct Tensor {
    std::string path;
    std::uint64_t offset = 0;       ///< of its first byte in the file; 0 if it has none
    std::uint64_t bytes = 0;        ///< little-endian, row-major
    std::uint64_t checksum_at = 0;  ///< offset of the CRC-32C of these bytes, a little-endian uint32
  };
  struct Piece {
    std::uint64_t offset = 0;
    std::vector<std::uint8_t> bytes;
  };

  std::uint64_t file_bytes = 0;
  std::vector<Piece> pieces;    ///< known bytes; all others that belong to no tensor and no checksum are zero
  std::vector<Tensor> tensors;  ///< sorted by path

  /// nullptr if there is no such tensor.
  [[nodiscard]] const Tensor* find(std::string_view path) const noexcept;
};

}  // namespace bitrift::ckpt
