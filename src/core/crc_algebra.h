// The algebra of reflected 32-bit CRCs: polynomials over GF(2) modulo the CRC's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bitrift {

/// `Polynomial` in reflected order: bit 31 is x^0.
template <std::uint32_t Polynomial>
struct CrcAlgebra {
  static constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? Polynomial : 0);
      made[i] = value;
    }
    return made;
  }
  static constexpr std::array<std::uint32_t, 256> table = make_table();

  static std::uint32_t update(std::uint32_t state, const std::uint8_t* data, std::size_t size) noexcept {
    for (std::size_t i = 0; i < size; ++i) state = (state >> 8) ^ table[(state ^ data[i]) & 0xFF];
    return state;
  }

  /// Product of two polynomials.
  static std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
    std::uint32_t product = 0;
    for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
      if ((a & bit) != 0) product ^= b;
      b = (b >> 1) ^ ((b & 1) != 0 ? Polynomial : 0);
    }
    return product;
  }

  /// base^exponent.
  static std::uint32_t power(std::uint32_t base, std::uint64_t exponent) noexcept {
    std::uint32_t result = 0x80000000;  // 1
    for (; exponent != 0; exponent >>= 1) {
      if ((exponent & 1) != 0) result = multiply(result, base);
      base = multiply(base, base);
    }
    return result;
  }

  /// x^exponent.
  static std::uint32_t power_of_x(std::uint64_t exponent) noexcept { return power(0x40000000, exponent); }

  /// The factor for multiply() that advances a state over `bytes` zero bytes: x^(8 bytes).
  static std::uint32_t power_of_zeros(std::uint64_t bytes) noexcept { return power(0x00800000, bytes); }
};

}  // namespace bitrift
