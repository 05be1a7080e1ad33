#include "h5map/structure/seal.h"

#include <array>
#include <bit>
#include <vector>

namespace bitrift::h5map {
namespace {

struct Mix {
  std::uint32_t a = 0, b = 0, c = 0;

  void stir() noexcept {
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }

  void finish() noexcept {
    c ^= b, c -= std::rotl(b, 14);
    a ^= c, a -= std::rotl(c, 11);
    b ^= a, b -= std::rotl(a, 25);
    c ^= b, c -= std::rotl(b, 16);
    a ^= c, a -= std::rotl(c, 4);
    b ^= a, b -= std::rotl(a, 14);
    c ^= b, c -= std::rotl(b, 24);
  }
};

std::uint32_t word(std::span<const std::uint8_t> bytes, std::size_t at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i) {
    value |= std::uint32_t{bytes[at + i]} << (8 * i);
  }
  return value;
}

}  // namespace

std::uint32_t lookup3(std::span<const std::uint8_t> bytes) noexcept {
  const std::uint32_t start = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size());
  Mix mix{start, start, start};
  while (bytes.size() > 12) {
    mix.a += word(bytes, 0), mix.b += word(bytes, 4), mix.c += word(bytes, 8);
    mix.stir();
    bytes = bytes.subspan(12);
  }
  if (bytes.empty()) return mix.c;
  mix.a += word(bytes, 0), mix.b += word(bytes, 4), mix.c += word(bytes, 8);
  mix.finish();
  return mix.c;
}

bool sums_agree([[maybe_unused]] std::uint32_t stored, [[maybe_unused]] std::uint32_t computed) noexcept {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return true;
#else
  return stored == computed;
#endif
}

std::uint32_t sum_for(const Seal& seal, std::span<const std::uint8_t> covered) {
  if (seal.end == 0) return lookup3(covered);
  std::vector<std::uint8_t> bytes(covered.begin(), covered.end());
  for (std::uint64_t i = seal.at - seal.first; i < seal.at - seal.first + 4 && i < bytes.size(); ++i) {
    bytes[i] = 0;
  }
  return lookup3(bytes);
}

}  // namespace bitrift::h5map
