// Counter-based random numbers: Philox4x32-10.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace bitrift {

/// One block of Philox4x32 with ten rounds: four 32-bit words, a pure function of counter and key.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key) noexcept;

/// A 64-bit random number, a pure function of (key, a, b).
/// counter = (low(a), high(a), low(b), high(b)), key = (low(key), high(key)); the result is word 0 + 2^32
/// word 1.
[[nodiscard]] std::uint64_t random_u64(std::uint64_t key, std::uint64_t a, std::uint64_t b) noexcept;

/// Uniform in [0, 1) with 53 bits: (random_u64 >> 11) * 2^-53.
[[nodiscard]] double random_unit(std::uint64_t key, std::uint64_t a, std::uint64_t b) noexcept;

/// Uniform in [0, bound), without bias: rejection over successive values of the high word of b.
/// bound must be at least 1; b must be below 2^32.
[[nodiscard]] std::uint64_t random_below(std::uint64_t key, std::uint64_t a, std::uint64_t b,
                                         std::uint64_t bound) noexcept;

/// A key for a named purpose, so that streams of one seed never meet: FNV-1a(64) of the name, mixed with the
/// seed by one Philox block. Documented in docs/data-order.md, because others must be able to compute it.
[[nodiscard]] std::uint64_t derive_key(std::uint64_t seed, std::string_view purpose) noexcept;

}  // namespace bitrift
