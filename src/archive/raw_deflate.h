// Deflated data without a wrapper (RFC 1951), as zip archives hold it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bitrift::archive {

/// Whether `packed_bytes` deflated bytes can inflate to `bytes`: deflate reaches at most a factor of 1032.
[[nodiscard]] bool can_inflate_to(std::uint64_t packed_bytes, std::uint64_t bytes) noexcept;

/// The `bytes` bytes that `packed` holds. Throws Error(bad_file) for damage, and where they are more or
/// fewer.
[[nodiscard]] std::vector<std::uint8_t> inflate_raw(std::span<const std::uint8_t> packed,
                                                    std::uint64_t bytes);

/// The first bytes of the content of `packed`, the beginning of deflated data: at most `most`, fewer where
/// either ends. Throws Error(bad_file) for damage before them.
[[nodiscard]] std::vector<std::uint8_t> inflate_beginning(std::span<const std::uint8_t> packed,
                                                          std::uint64_t most);

/// Deflated data that inflates to `bytes`. If it is larger than `room` bytes, and `bytes` are at most 16 MiB,
/// it is packed harder.
[[nodiscard]] std::vector<std::uint8_t> deflate_raw(std::span<const std::uint8_t> bytes, std::uint64_t room);

/// As deflate_raw(), but made from `packed`, the deflated data of `before`; `after` differs from `before` in
/// some bytes. If these are few, only they are packed again (core/deflate/stream_patch.h): then most bytes
/// stay the same, and the result is checked by inflating it.
[[nodiscard]] std::vector<std::uint8_t> deflate_raw_again(std::span<const std::uint8_t> packed,
                                                          std::vector<std::uint8_t> before,
                                                          std::span<const std::uint8_t> after);

/// Deflated data that inflates to `head`, of at most 65535 bytes, and then `bytes`. The head is stored
/// unchanged.
[[nodiscard]] std::vector<std::uint8_t> deflate_behind(std::span<const std::uint8_t> head,
                                                       std::span<const std::uint8_t> bytes);

}  // namespace bitrift::archive
