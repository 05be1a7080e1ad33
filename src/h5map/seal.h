// The checksums that HDF5's newer structures carry.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

namespace bitrift::h5map {

/// Bob Jenkins' lookup3 ("hashlittle", initial value 0) as the HDF5 file format uses it for all metadata
/// checksums of its newer structures.
[[nodiscard]] std::uint32_t lookup3(std::span<const std::uint8_t> bytes) noexcept;

/// A structure that ends in its own checksum: bytes [first, at) of the file are covered, and the four
/// little-endian bytes at `at` hold their lookup3. Who alters a covered byte writes the sum anew. Offsets are
/// those of the file, user block included.
struct Seal {
  std::uint64_t first = 0;
  std::uint64_t at = 0;
  auto operator<=>(const Seal&) const = default;
};

}  // namespace bitrift::h5map
