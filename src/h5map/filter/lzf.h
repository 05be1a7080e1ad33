// LZF, the compression of h5py's filter 32000.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bitrift::h5map {

/// Packs bytes into the LZF format (after Marc Lehmann's LibLZF): a control byte c < 32 is followed by c + 1
/// literals; any other represents a copy of (c >> 5) + 2 bytes, where 7 in place of c >> 5 is followed by a
/// byte to be added to it, from ((c & 31) << 8 | next byte) + 1 bytes back. Bytes that do not compress grow
/// by a 32nd at most.
[[nodiscard]] std::vector<std::uint8_t> lzf_pack(std::span<const std::uint8_t> bytes);

/// The bytes that `packed` encodes. Throws Error(bad_file, "LZF data ...") when it ends early, refers to
/// bytes before its start or produces more than `most` bytes.
[[nodiscard]] std::vector<std::uint8_t> lzf_unpack(std::span<const std::uint8_t> packed, std::uint64_t most);

}  // namespace bitrift::h5map
