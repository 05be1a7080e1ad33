// Where bits of a message were flipped, from the difference that this makes to its CRC.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace bitrift::integrity {

/// A bit of a message; bit 0 is the least significant one of its byte.
struct MessageBit {
  std::uint64_t byte = 0;
  unsigned bit = 0;
  auto operator<=>(const MessageBit&) const = default;
};
using BitPair = std::array<MessageBit, 2>;

/// The two CRCs that checkpoints hold.
enum class CrcKind {
  crc32,   ///< of zip archives; x has the order 2^32 - 1 modulo its polynomial
  crc32c,  ///< of tensors; its polynomial has the factor x + 1, and x has the order 2^31 - 1
};

/// Every single bit of a message whose flip XORs the CRC of the message with `difference`, ascending: at most
/// one if the message has fewer bits than the order of x. CRC is linear over GF(2): flipping the bit that p
/// others follow (in each byte, bit 0 comes first) XORs the CRC with x^(32 + p) modulo the polynomial, so p
/// is a discrete logarithm. Baby steps and giant steps find it (Shanks, "Class number, a theory of
/// factorization, and genera", 1971): at most 2^16 of each. Thread-safe.
[[nodiscard]] std::vector<MessageBit> single_flips(CrcKind kind, std::uint32_t difference,
                                                   std::uint64_t bytes);
/// Likewise all pairs of bits in one word of four bytes; words are counted from the first byte.
[[nodiscard]] std::vector<BitPair> double_flips(CrcKind kind, std::uint32_t difference, std::uint64_t bytes);

}  // namespace bitrift::integrity
