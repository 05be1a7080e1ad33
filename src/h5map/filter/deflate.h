// The filter deflate: zlib's format, by libdeflate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bitrift::h5map {

/// The contents of a zlib stream (RFC 1950); bytes after its end are ignored, as in HDF5. Throws
/// Error(bad_file) for damage, a wrong Adler-32 sum included, and for more than `most` bytes. `taken`: where
/// to put the size of the stream.
[[nodiscard]] std::vector<std::uint8_t> inflate_bytes(std::span<const std::uint8_t> packed,
                                                      std::uint64_t most, std::size_t* taken = nullptr);

/// A zlib stream that inflates to `bytes`, packed as hard as zlib's `level` (0 to 9) asks. If it is larger
/// than `room` bytes, and `bytes` are at most 16 MiB, it is packed harder. Throws Error(bad_file) for an
/// invalid level.
[[nodiscard]] std::vector<std::uint8_t> deflate_bytes(std::span<const std::uint8_t> bytes,
                                                      std::uint32_t level, std::uint64_t room);

/// As deflate_bytes(), but made from `packed`, the zlib stream of `before`; `after` differs from `before` in
/// some bytes. If these are few, only they are packed again (core/deflate/stream_patch.h): then most bytes
/// stay the same, and the result is checked by inflating it.
[[nodiscard]] std::vector<std::uint8_t> deflate_again(std::span<const std::uint8_t> packed,
                                                      std::vector<std::uint8_t> before,
                                                      std::span<const std::uint8_t> after,
                                                      std::uint32_t level, std::uint64_t room);

}  // namespace bitrift::h5map
