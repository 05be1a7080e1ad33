// A dataset of a new HDF5 file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/number/number_format.h"

namespace bitrift::h5 {

/// A dataset to be made: numbers of a format, or strings of a fixed length.
struct NewDataset {
  std::string path;                    ///< without leading '/'; groups on the way are made
  std::optional<NumberFormat> format;  ///< absent: strings
  std::size_t string_bytes = 0;        ///< length of each string, UTF-8, null-padded
  std::vector<std::uint64_t> shape;    ///< empty: a scalar

  /// Size of all elements together.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

}  // namespace bitrift::h5
