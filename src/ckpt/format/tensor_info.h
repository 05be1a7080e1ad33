// A tensor of a file: its name, its number format, how it is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/number/number_format.h"

namespace bitrift::ckpt {

/// How values are stored in a file that is deflated as a whole in an archive: the stored bytes are those of
/// all of its tensors.
constexpr const char* storage_of_packed_file = "deflated file";

/// The numbers of a dataset, of a member of its elements, or of an attribute, whether or not they can be
/// altered.
struct TensorInfo {
  std::string path;
  std::string role;
  std::string layer;                   ///< the module that it belongs to; "" if there is none
  std::optional<NumberFormat> format;  ///< absent: not a number format that bitrift alters
  std::string dtype;                   ///< printable type, even without a format: "float32", "string",
                                       ///< "compound"
  std::uint64_t element_bytes = 0;     ///< stored size of one element
  /// The byte order in which its elements are stored; that of `format` if there is one.
  ByteOrder order = ByteOrder::little;
  /// Its values are the stored ones times -1 (torch.Tensor.is_neg): the top bit of each is stored inverted.
  bool negated = false;
  bool plain = false;  ///< its bytes are the value: no variable-length part, no reference, no part of a byte
  std::vector<std::uint64_t> shape;
  /// In HDF5: contiguous | compact | chunked | virtual | external | attribute, "+filters" when filtered. In
  /// other formats: stored | deflated. In each: storage_of_packed_file.
  std::string storage;
  /// Bytes that its dataset or attribute stores in all; if its file is deflated as a whole, in the unpacked
  /// one.
  std::uint64_t stored_bytes = 0;
  /// The offset of the first byte in the file, when the elements follow each other there and no checksum of
  /// HDF5 covers them.
  std::optional<std::uint64_t> offset;
  std::string refusal;  ///< why it cannot be altered; "" if it can
  /// It is refused only because it has no number format: read as a format of the same width, it can be
  /// altered.
  bool refused_by_type = false;
  std::string holder;  ///< of a compound member, an array element or a part of a complex number: the path of
                       ///< the dataset or attribute that it belongs to; "" for all others
  bool attribute = false;  ///< an attribute ("<object>@NAME"), or a part of one
  /// The tensor that owns these elements: for HDF5 the dataset's first name (h5map::File::datasets),
  /// otherwise the first tensor in path order; "" if it is this one.
  std::string alias_of;
  /// In a set of files: the files that hold it, by name; "" in a single file.
  std::string file;
  bool left_out = false;  ///< see Reader::leave_out
  /// Bytes [first, end) of the file between its first and its last byte, where other tensors may lie too; 0
  /// and 0 if none can.
  std::uint64_t shared_first = 0, shared_end = 0;

  /// An array in the element: the number of items, and the number of bytes from one to the next.
  struct Step {
    std::uint64_t count = 1;
    std::uint64_t stride = 0;
  };
  // Element i begins at byte first_byte + i / per_row * row_bytes of the values of the dataset or attribute
  // as bytes (ckpt/format/values.h), and at the place i % per_row of the arrays that it is in, outermost
  // first.
  std::uint64_t first_byte = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t per_row = 1;  // the product of the counts
  std::vector<Step> steps;

  [[nodiscard]] std::uint64_t elements() const noexcept;  ///< 2^64 - 1 if they do not fit
  /// Refuses it, if nothing does yet, because its type is not a number format; says how it can be altered
  /// nevertheless.
  void refuse_type();
  [[nodiscard]] std::uint64_t byte_of(std::uint64_t element) const noexcept {
    std::uint64_t byte = first_byte + element / per_row * row_bytes;
    std::uint64_t place = element % per_row;
    for (std::size_t i = steps.size(); i-- > 0; place /= steps[i].count) {
      byte += place % steps[i].count * steps[i].stride;
    }
    return byte;
  }
  /// Its elements fill all of its bytes, one after another.
  [[nodiscard]] bool whole() const noexcept { return row_bytes == per_row * element_bytes; }
};

}  // namespace bitrift::ckpt
