#include "inject/upset/secded.h"

#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift::inject {
namespace {

constexpr std::size_t data_bits = 64;

/// What a syndrome says: the number of a data bit, or one of these.
constexpr std::uint8_t check_bit = 64;
constexpr std::uint8_t several_bits = 65;

struct SecdedCode {
  std::array<std::uint8_t, data_bits> columns{};
  std::array<std::uint8_t, 256> places{};  // by syndrome
};

SecdedCode make_code(unsigned number) {
  std::vector<std::uint8_t> ordered;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (std::popcount(byte) == 3) ordered.push_back(static_cast<std::uint8_t>(byte));
  }
  for (int turn = 0; turn < 8; ++turn) ordered.push_back(std::rotl(std::uint8_t{0x1f}, turn));
  const Permutation order(data_bits, derive_key(number, "inject.secded"));
  SecdedCode code;
  code.places.fill(several_bits);
  for (unsigned bit = 0; bit < 8; ++bit) code.places.at(1U << bit) = check_bit;
  for (std::size_t bit = 0; bit < data_bits; ++bit) {
    code.columns.at(bit) = ordered.at(order(bit));
    code.places.at(code.columns.at(bit)) = static_cast<std::uint8_t>(bit);
  }
  return code;
}

const SecdedCode& code_of(unsigned number) {
  static const std::vector<SecdedCode> codes = [] {
    std::vector<SecdedCode> all;
    for (unsigned one = 0; one < secded_codes; ++one) all.push_back(make_code(one));
    return all;
  }();
  return codes.at(number);
}

}  // namespace

std::uint8_t secded_column(unsigned code, unsigned data_bit) { return code_of(code).columns.at(data_bit); }

Decoded decode_secded(unsigned code, const WordError& error) {
  const SecdedCode& known = code_of(code);
  std::uint8_t syndrome = error.check;
  for (std::uint64_t rest = error.data; rest != 0; rest &= rest - 1) {
    syndrome ^= known.columns.at(static_cast<std::size_t>(std::countr_zero(rest)));
  }
  if (syndrome == 0) return {false, error.data};
  const std::uint8_t place = known.places.at(syndrome);
  if (place == several_bits) return {true, 0};
  return {false, place == check_bit ? error.data : error.data ^ (std::uint64_t{1} << place)};
}

}  // namespace bitrift::inject
