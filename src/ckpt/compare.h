// What differs between two checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bitrift::ckpt {

/// Differences of one tensor.
struct TensorDifference {
  std::string path;
  std::string kind;    ///< values | only_in_first | only_in_second | shape | dtype | not_compared
  std::string detail;  ///< shape and dtype: "float32 [6, 1] against float64 [6, 1]"; not_compared: why
  std::string role;
  std::string dtype;           ///< in the first file that has it
  std::uint64_t elements = 0;  ///< differing elements (values)
  std::uint64_t bits = 0;      ///< differing bits, summed over elements
  std::uint64_t first_element = 0;
  std::uint64_t first_old = 0, first_new = 0;  ///< bit patterns of the first differing element
};

/// Compares tensors by value bits (NaN payloads count; byte order and storage do not), and the string
/// attributes of the root group as pseudo-paths "@spec". Tensors of other plain types are compared as bytes
/// (patterns stay 0). Tensors that cannot be compared (other types, virtual or external storage, more than 1
/// GiB that is not in one place) are listed as such, never left out, unless both files are equal byte for
/// byte. Sorted by path; empty when equal. Throws as Reader does.
[[nodiscard]] std::vector<TensorDifference> compare(const std::filesystem::path& first,
                                                    const std::filesystem::path& second);

}  // namespace bitrift::ckpt
