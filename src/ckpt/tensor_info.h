// A tensor of a file: its name, its number format, how it is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/number_format.h"

namespace bitrift::ckpt {

/// The numbers of a dataset, of a member of its elements, or of an attribute; alterable or not.
struct TensorInfo {
  std::string path;
  std::string role;
  std::string layer;                   ///< the module that it belongs to; "" when it belongs to none
  std::optional<NumberFormat> format;  ///< absent: not a number format that bitrift alters
  std::string dtype;                   ///< printable type, also for those: "float32", "string", "compound"
  std::uint64_t element_bytes = 0;     ///< stored size of one element
  bool plain = false;                  ///< its bytes are its value: no variable-length part, no reference
  std::vector<std::uint64_t> shape;
  std::string
      storage;  ///< contiguous | compact | chunked | virtual | external | attribute, "+filters" when filtered
  std::uint64_t stored_bytes = 0;  ///< of all that its dataset or attribute stores
  /// Of the first byte in the file, when the elements follow each other there and nothing covers them with a
  /// checksum.
  std::optional<std::uint64_t> offset;
  std::string refusal;  ///< why it cannot be altered; "" when it can
  /// The refusal is for want of a number format only: read as one of the same width, it can be altered.
  bool refused_by_type = false;
  std::string holder;  ///< of a compound member, an array element or a part of a complex number: the path of
                       ///< the dataset or attribute that it belongs to; "" for all others
  bool attribute = false;  ///< an attribute ("<object>@NAME"), or a part of one

  // Element i begins at byte first_byte + i / per_row * row_bytes + i % per_row * element_bytes of what the
  // dataset's or attribute's values are as bytes (ckpt/values.h).
  std::uint64_t first_byte = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t per_row = 1;

  [[nodiscard]] std::uint64_t elements() const noexcept;  ///< 2^64 - 1 when they do not fit
  [[nodiscard]] std::uint64_t byte_of(std::uint64_t element) const noexcept {
    return first_byte + element / per_row * row_bytes + element % per_row * element_bytes;
  }
  /// Its elements are all bytes there are, one behind the other.
  [[nodiscard]] bool whole() const noexcept { return row_bytes == per_row * element_bytes; }
};

}  // namespace bitrift::ckpt
