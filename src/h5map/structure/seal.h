// The checksums of HDF5's newer structures.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

namespace bitrift::h5map {

/// Bob Jenkins' lookup3 ("hashlittle", initial value 0) as the HDF5 file format uses it for all metadata
/// checksums of its newer structures.
[[nodiscard]] std::uint32_t lookup3(std::span<const std::uint8_t> bytes) noexcept;

/// Whether a stored checksum is the computed one. A program built for fuzzing accepts every checksum,
/// otherwise no mutated byte would get past it.
[[nodiscard]] bool sums_agree(std::uint32_t stored, std::uint32_t computed) noexcept;

/// A structure with a checksum: the four little-endian bytes at `at` hold the lookup3 of bytes [first, at) of
/// the file, or, where `end` is not 0, of bytes [first, end), which contain the sum itself, counted as
/// zeros (direct blocks of fractal heaps). Code that alters a covered byte must recompute the sum. Offsets
/// are those of the file, user block included.
struct Seal {
  std::uint64_t first = 0;
  std::uint64_t at = 0;
  std::uint64_t end = 0;
  auto operator<=>(const Seal&) const = default;

  /// The end of the covered bytes.
  [[nodiscard]] std::uint64_t covered_end() const noexcept { return end == 0 ? at : end; }
};

/// The sum that belongs at `seal.at` when the covered bytes [seal.first, seal.covered_end()) are `covered`.
[[nodiscard]] std::uint32_t sum_for(const Seal& seal, std::span<const std::uint8_t> covered);

}  // namespace bitrift::h5map
