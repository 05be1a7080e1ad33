// The canonical prefix codes of deflate (RFC 1951, 3.2.2).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/deflate/bits.h"

namespace bitrift::deflate {

/// A code for at most 288 symbols, for reading and writing.
class HuffmanCode {
 public:
  static constexpr unsigned longest = 15;
  static constexpr std::size_t most_symbols = 288;

  /// `lengths`: bits of each symbol's code, 0 if it has none. Throws Error(unsupported) if they do not form a
  /// complete code; if `sparse`, one code of one bit, or none at all, may be incomplete.
  void assign(std::span<const std::uint8_t> lengths, bool sparse);

  [[nodiscard]] unsigned length(unsigned symbol) const noexcept { return lengths_[symbol]; }
  [[nodiscard]] std::span<const std::uint8_t> lengths() const noexcept { return {lengths_.data(), symbols_}; }
  void put(unsigned symbol, BitWriter& out) const { out.put(bits_[symbol], lengths_[symbol]); }
  /// Throws Error(unsupported) for bits that are not the code of a symbol.
  [[nodiscard]] unsigned take(BitReader& from) const {
    const Entry entry = next(from.peek());
    from.skip(entry.length);
    return entry.length == 0 ? take_long(from) : entry.symbol;
  }
  struct Entry {
    std::uint16_t symbol = 0;
    std::uint8_t length = 0;  ///< number of bits; 0: no code is that short
  };
  /// The symbol with whose code the bits begin, unless the code is long: then the length is 0.
  [[nodiscard]] Entry next(std::uint64_t bits) const noexcept { return table_[bits & mask_]; }
  /// The most bits of a code that is not long: tables then fit into the fastest cache.
  static constexpr unsigned table_bits = 11;

 private:
  [[nodiscard]] unsigned take_long(BitReader& from) const;

  std::size_t symbols_ = 0;
  std::array<std::uint8_t, most_symbols> lengths_{};
  std::array<std::uint16_t, most_symbols> bits_{};  // in writing order, the first bit lowest
  std::array<Entry, std::size_t{1} << table_bits> table_{};
  std::size_t mask_ = 0;                              // bits of the table that are in use
  std::array<std::uint16_t, longest + 1> count_{};    // number of codes of each length
  std::array<std::uint16_t, most_symbols> sorted_{};  // symbols in the order of their codes
};

/// Gives a code to `symbol`, which has none, at the cost of one more bit for each use of another symbol: the
/// one with the fewest uses among those whose code is shorter than `longest`. A complete code stays complete.
/// Throws Error(unsupported) if such a symbol does not exist.
void add_code(std::span<std::uint8_t> lengths, std::span<const std::uint64_t> uses, unsigned symbol,
              unsigned longest);

}  // namespace bitrift::deflate
