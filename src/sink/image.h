// The image of a checkpoint: the layout of its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::ckpt {

/// What a file holds about each tensor, to recognize damage.
enum class Checksum {
  none,
  crc32c,  ///< of its bytes (RFC 3720)
  crc32    ///< the checksum of the zip member that it is, or ends
};

/// A file whose tensors are filled in later. It depends only on names, formats, shapes and attributes, so one
/// image serves every save of a training whose tensors keep their shapes.
struct Image {
  struct Tensor {
    std::string path;
    std::uint64_t offset = 0;                      ///< of its first byte in the file; 0 if it has none
    std::uint64_t bytes = 0;                       ///< little-endian, row-major
    std::vector<std::uint64_t> checksums_at = {};  ///< offsets of its checksum, each a little-endian uint32
    std::uint32_t checksum_begun = 0;              ///< checksum of the bytes before it that its checksum also
                                                   ///< covers
  };
  struct Piece {
    std::uint64_t offset = 0;
    std::vector<std::uint8_t> bytes;
  };

  std::uint64_t file_bytes = 0;
  Checksum checksum = Checksum::none;
  std::vector<Piece> pieces;    ///< known bytes; other bytes outside of tensors and checksums are zero
  std::vector<Tensor> tensors;  ///< sorted by path

  /// nullptr if the tensor does not exist.
  [[nodiscard]] const Tensor* find(std::string_view path) const noexcept;
};

}  // namespace bitrift::ckpt
