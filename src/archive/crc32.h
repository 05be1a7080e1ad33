// The CRC-32 of zip archives, and its update in O(log n) when a few bytes change.
#pragma once

#include <cstdint>
#include <span>

namespace bitrift::archive {

/// CRC-32 as zip archives have it (APPNOTE.TXT 4.4.7: polynomial 0xdebb20e3, reflected, initial and final XOR
/// of all ones). `before`: the CRC of the bytes before these.
[[nodiscard]] std::uint32_t crc32(std::span<const std::uint8_t> bytes, std::uint32_t before = 0) noexcept;

/// The CRC of a message after XOR-ing `difference` into it at a place that is followed by `bytes_after`
/// bytes; see crc32c_xor().
[[nodiscard]] std::uint32_t crc32_xor(std::uint32_t crc, std::span<const std::uint8_t> difference,
                                      std::uint64_t bytes_after) noexcept;

/// The CRC of two messages, one after the other, from that of each; see crc32().
[[nodiscard]] std::uint32_t crc32_join(std::uint32_t first, std::uint32_t second,
                                       std::uint64_t bytes_of_second) noexcept;

}  // namespace bitrift::archive
