// Number formats as HDF5 datatypes.
#pragma once

#include <cstddef>

#include "core/number/number_format.h"
#include "h5/handle.h"

namespace bitrift::h5 {

/// The datatype of a format. bfloat16 is a custom floating type: size 2, sign 15, exponent 7..14, bias 127.
[[nodiscard]] Handle make_type(const NumberFormat& format);

/// A fixed-length, null-padded UTF-8 string type of `bytes` bytes.
[[nodiscard]] Handle make_string_type(std::size_t bytes);

}  // namespace bitrift::h5
