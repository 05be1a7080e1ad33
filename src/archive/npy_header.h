// The header of a .npy array (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "archive/element_type.h"

namespace bitrift::archive {

struct NpyHeader {
  std::uint64_t bytes = 0;  ///< size of the header: the elements begin after it
  ElementType type;
  bool fortran_order = false;  ///< the first dimension is the fastest
  std::vector<std::uint64_t> shape;
};

/// The number of bytes of an array that may be needed to read its header.
inline constexpr std::uint64_t most_npy_header = std::uint64_t{64} << 10U;

/// Reads the header at the beginning of `array`, of which most_npy_header bytes are enough; `array_bytes` is
/// the size of the whole. `where` names file and array in messages. The text is read as a Python literal;
/// nothing in it is executed. Throws Error(bad_file) if the header is damaged, or does not fit the size of
/// the array; Error(unsupported) for other versions and longer headers.
[[nodiscard]] NpyHeader read_npy_header(std::span<const std::uint8_t> array, std::uint64_t array_bytes,
                                        const std::string& where);

}  // namespace bitrift::archive
