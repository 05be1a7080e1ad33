// Number formats as HDF5 datatypes, both ways.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/number_format.h"
#include "h5/handle.h"

namespace bitrift::h5 {

/// What a datatype is.
struct TypeInfo {
  std::optional<NumberFormat> format;  ///< absent: no number format that bitrift alters
  std::string name;         ///< "float32", "string", "compound", "float8 (5 exponent, 2 mantissa bits)"
  std::uint64_t bytes = 0;  ///< size of one element
  bool plain = false;       ///< the bytes are the value: no variable-length part, no reference
};

/// Reads a datatype, given by its id. A floating type is recognised by its whole layout (size, fields, bias,
/// hidden bit), an integer by size and full precision. Throws Error(bad_file) prefixed with `where`.
[[nodiscard]] TypeInfo describe_type(std::int64_t type, const std::string& where);

/// The datatype of a format. bfloat16 is a custom floating type: size 2, sign 15, exponent 7..14, bias 127.
[[nodiscard]] Handle make_type(const NumberFormat& format);

/// A fixed-length, null-padded UTF-8 string type of `bytes` bytes.
[[nodiscard]] Handle make_string_type(std::size_t bytes);

}  // namespace bitrift::h5
