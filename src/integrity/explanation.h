// The flipped bits that explain damage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bitrift::integrity {

/// A bit of a file; bit 0 is the least significant one of its byte.
struct FileBit {
  std::uint64_t offset = 0;
  unsigned bit = 0;
  auto operator<=>(const FileBit&) const = default;
};

/// The only bits, one or two, that make a damaged part sound when they are flipped.
struct Explanation {
  std::vector<FileBit> bits;
  /// The chance that damage of another kind is explained in this way too. For a CRC, of damage that changes
  /// it at random: the number of bits (or pairs) that were tried, over the number of sums, 2^32. For
  /// Fletcher-32, of two flips in one word of four bytes. nullopt: no sum decides.
  std::optional<double> chance;
  std::string failure;  ///< one line: why there is no such explanation, or more than one; "" if there is one
};

/// The bits of the only candidate; without one, the failure `none`, and with several, how many there are.
[[nodiscard]] Explanation only_explanation(const std::vector<std::vector<FileBit>>& candidates,
                                           std::optional<double> chance, const std::string& none);

}  // namespace bitrift::integrity
