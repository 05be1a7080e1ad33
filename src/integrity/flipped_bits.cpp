#include "integrity/flipped_bits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/crc_algebra.h"

namespace bitrift::integrity {
namespace {

constexpr std::uint32_t one = 0x80000000;  // reflected: bit 31 is x^0
constexpr unsigned crc_bits = 32;
constexpr unsigned word_bytes = 4;

template <std::uint32_t Polynomial, std::uint64_t Order>
class Powers {
 public:
  using Algebra = CrcAlgebra<Polynomial>;

  /// Solves equations value = x^p * factor with p < bits.
  Powers(std::uint32_t value, std::uint64_t bits)
      : bits_(bits),
        end_(std::min(bits, Order)),
        step_(static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(end_)))) + 1),
        stride_(Algebra::power_of_x(step_)) {
    for (std::uint32_t j = 0; j < step_; ++j, value = divided_by_x(value)) baby_.emplace_back(value, j);
    std::sort(baby_.begin(), baby_.end());
  }

  /// All p, for a factor that is not 0.
  [[nodiscard]] std::vector<std::uint64_t> solve(std::uint32_t factor) const {
    for (std::uint64_t first = 0; first < end_; first += step_, factor = Algebra::multiply(factor, stride_)) {
      const auto at = std::lower_bound(baby_.begin(), baby_.end(), std::pair(factor, std::uint32_t{0}));
      if (at == baby_.end() || at->first != factor) continue;
      std::vector<std::uint64_t> found;
      for (std::uint64_t p = first + at->second; p < bits_; p += Order) found.push_back(p);
      return found;
    }
    return {};
  }

 private:
  static std::uint32_t divided_by_x(std::uint32_t value) {
    return (value & one) != 0 ? (value ^ Polynomial) << 1U | 1U : value << 1U;
  }

  std::uint64_t bits_, end_;
  std::uint32_t step_, stride_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> baby_;  // value / x^j, and j
};

/// The bit that so many others follow.
MessageBit bit_before(std::uint64_t others, std::uint64_t bytes) {
  return {bytes - 1 - others / 8, static_cast<unsigned>(7 - others % 8)};
}

template <typename Solver>
std::vector<MessageBit> singles(std::uint32_t difference, std::uint64_t bytes) {
  std::vector<MessageBit> found;
  if (difference == 0) return found;
  const Solver solver(difference, 8 * bytes);
  for (const std::uint64_t p : solver.solve(Solver::Algebra::power_of_x(crc_bits)))
    found.push_back(bit_before(p, bytes));
  std::sort(found.begin(), found.end());
  return found;
}

template <typename Solver>
std::vector<BitPair> pairs(std::uint32_t difference, std::uint64_t bytes) {
  std::vector<BitPair> found;
  if (difference == 0) return found;
  const Solver solver(difference, 8 * bytes);
  for (unsigned apart = 1; apart < 8 * word_bytes; ++apart) {
    const std::uint32_t factor =
        Solver::Algebra::power_of_x(crc_bits) ^ Solver::Algebra::power_of_x(crc_bits + apart);
    for (const std::uint64_t p : solver.solve(factor)) {
      if (p + apart >= 8 * bytes) continue;
      BitPair two = {bit_before(p + apart, bytes), bit_before(p, bytes)};
      if (two[0].byte / word_bytes == two[1].byte / word_bytes) found.push_back(two);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

using Crc32 = Powers<0xEDB88320, (std::uint64_t{1} << 32U) - 1>;
using Crc32c = Powers<0x82F63B78, (std::uint64_t{1} << 31U) - 1>;

}  // namespace

std::vector<MessageBit> single_flips(CrcKind kind, std::uint32_t difference, std::uint64_t bytes) {
  return kind == CrcKind::crc32 ? singles<Crc32>(difference, bytes) : singles<Crc32c>(difference, bytes);
}

std::vector<BitPair> double_flips(CrcKind kind, std::uint32_t difference, std::uint64_t bytes) {
  return kind == CrcKind::crc32 ? pairs<Crc32>(difference, bytes) : pairs<Crc32c>(difference, bytes);
}

}  // namespace bitrift::integrity
