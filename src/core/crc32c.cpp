#include "core/crc32c.h"

#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "core/crc_algebra.h"

namespace bitrift {
namespace {

using Algebra = CrcAlgebra<0x82F63B78>;  // Castagnoli, reflected

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept { return Algebra::multiply(a, b); }
std::uint32_t power_of_zeros(std::uint64_t bytes) noexcept { return Algebra::power_of_zeros(bytes); }

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint64_t next_word(std::uint64_t state,
                                                          const std::uint8_t* data) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, data, 8);
  return _mm_crc32_u64(state, word);
}

// One instruction takes three cycles and another can begin in each: three interleaved parts keep it busy.
// Long enough that joining the parts costs little, short enough for the first-level cache.
constexpr std::size_t part_bytes = 8192;

__attribute__((target("sse4.2"))) std::uint32_t update_three_parts(std::uint32_t state,
                                                                   const std::uint8_t* data) noexcept {
  static const std::uint32_t one_part = power_of_zeros(part_bytes);
  static const std::uint32_t two_parts = multiply(one_part, one_part);
  std::uint64_t first = state, second = 0, third = 0;
  for (const std::uint8_t* const end = data + part_bytes; data != end; data += 8) {
    first = next_word(first, data);
    second = next_word(second, data + part_bytes);
    third = next_word(third, data + 2 * part_bytes);
  }
  return multiply(static_cast<std::uint32_t>(first), two_parts) ^
         multiply(static_cast<std::uint32_t>(second), one_part) ^ static_cast<std::uint32_t>(third);
}

__attribute__((target("sse4.2"))) std::uint32_t update_by_instruction(std::uint32_t state,
                                                                      const std::uint8_t* data,
                                                                      std::size_t size) noexcept {
  for (; size >= 3 * part_bytes; data += 3 * part_bytes, size -= 3 * part_bytes)
    state = update_three_parts(state, data);
  std::uint64_t wide = state;
  for (; size >= 8; data += 8, size -= 8) wide = next_word(wide, data);
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++data, --size) narrow = _mm_crc32_u8(narrow, *data);
  return narrow;
}
#endif

std::uint32_t update(std::uint32_t state, const std::uint8_t* data, std::size_t size) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return update_by_instruction(state, data, size);
#endif
  return Algebra::update(state, data, size);
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t crc) noexcept {
  return ~update(~crc, static_cast<const std::uint8_t*>(data), size);
}

std::uint32_t crc32c_xor(std::uint32_t crc, const void* difference, std::size_t size,
                         std::uint64_t bytes_after) noexcept {
  const std::uint32_t delta = update(0, static_cast<const std::uint8_t*>(difference), size);
  return crc ^ multiply(delta, power_of_zeros(bytes_after));
}

}  // namespace bitrift
