#include "core/philox.h"

namespace bitrift {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  // Multipliers and Weyl constants of the paper's table 2.
  constexpr std::uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * counter[0];
    const std::uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += weyl0;
    key[1] += weyl1;
  }
  return counter;
}

std::uint64_t random_u64(std::uint64_t key, std::uint64_t a, std::uint64_t b) noexcept {
  const auto word = [](std::uint64_t value, unsigned shift) {
    return static_cast<std::uint32_t>(value >> shift);
  };
  const auto block =
      philox4x32({word(a, 0), word(a, 32), word(b, 0), word(b, 32)}, {word(key, 0), word(key, 32)});
  return static_cast<std::uint64_t>(block[1]) << 32 | block[0];
}

double random_unit(std::uint64_t key, std::uint64_t a, std::uint64_t b) noexcept {
  return static_cast<double>(random_u64(key, a, b) >> 11) * 0x1p-53;
}

std::uint64_t random_below(std::uint64_t key, std::uint64_t a, std::uint64_t b,
                           std::uint64_t bound) noexcept {
  // The first 2^64 mod bound values would be drawn once more often than the others: draw again.
  const std::uint64_t excess = (0 - bound) % bound;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::uint64_t value = random_u64(key, a, b | attempt << 32);
    if (value >= excess) return value % bound;
  }
}

std::uint64_t derive_key(std::uint64_t seed, std::string_view purpose) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits: offset basis and prime
  for (const char c : purpose) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return random_u64(seed, hash, 0);
}

}  // namespace bitrift
