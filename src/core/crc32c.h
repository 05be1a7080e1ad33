// CRC-32C (Castagnoli), and its update in O(log n) when a few bytes change.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitrift {

/// CRC-32C of size bytes (RFC 3720, appendix B.4: reflected, initial and final XOR of all ones).
/// Pass an earlier result as `crc` to continue it.
[[nodiscard]] std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t crc = 0) noexcept;

/// The CRC of a message after XOR-ing `size` bytes `difference` into it at a place that is followed by
/// `bytes_after` bytes. CRC is linear over GF(2): crc(m ^ d) = crc(m) ^ c(d), where c has neither initial nor
/// final XOR and trailing zero bytes multiply by x^8 modulo the polynomial. Cost O(size + log bytes_after).
[[nodiscard]] std::uint32_t crc32c_xor(std::uint32_t crc, const void* difference, std::size_t size,
                                       std::uint64_t bytes_after) noexcept;

}  // namespace bitrift
