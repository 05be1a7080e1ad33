// The canonical prefix codes of deflate (RFC 1951, 3.2.2).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/deflate/bits.h"

namespace bitrift::deflate {

/// A code for at most 288 symbols, to read and to write with.
class HuffmanCode {
 public:
  static constexpr unsigned longest = 15;
  static constexpr std::size_t most_symbols = 288;

  /// `lengths`: bits of each symbol's code, 0 where it has none. Throws Error(unsupported) where they make no
  /// complete code; one code of one bit, or none at all, may be incomplete where `sparse`.
  void assign(std::span<const std::uint8_t> lengths, bool sparse);

  [[nodiscard]] unsigned length(unsigned symbol) const noexcept { return lengths_[symbol]; }
  [[nodiscard]] std::span<const std::uint8_t> lengths() const noexcept { return {lengths_.data(), symbols_}; }
  void put(unsigned symbol, BitWriter& out) const { out.put(bits_[symbol], lengths_[symbol]); }
  /// Throws Error(unsupported) for bits that no symbol has.
  [[nodiscard]] unsigned take(BitReader& from) const {
    const Entry entry = next(from.peek());
    from.skip(entry.length);
    return entry.length == 0 ? take_long(from) : entry.symbol;
  }
  struct Entry {
    std::uint16_t symbol = 0;
    std::uint8_t length = 0;  ///< bits; 0: none that short
  };
  /// The symbol that bits begin with, where its code is not a long one: else the length is 0.
  [[nodiscard]] Entry next(std::uint64_t bits) const noexcept { return table_[bits & mask_]; }
  /// The most bits of a code that is not long: tables stay small enough for the fastest cache.
  static constexpr unsigned table_bits = 11;

 private:
  [[nodiscard]] unsigned take_long(BitReader& from) const;

  std::size_t symbols_ = 0;
  std::array<std::uint8_t, most_symbols> lengths_{};
  std::array<std::uint16_t, most_symbols> bits_{};  // as they are written, the first one lowest
  std::array<Entry, std::size_t{1} << table_bits> table_{};
  std::size_t mask_ = 0;                              // of the part of the table that is in use
  std::array<std::uint16_t, longest + 1> count_{};    // of the codes of each length
  std::array<std::uint16_t, most_symbols> sorted_{};  // symbols in the order of their codes
};

/// Gives `symbol`, which has no code, one, at the cost of one bit more for each use of another symbol: that
/// with the fewest uses of those whose code is shorter than `longest`. A complete code stays complete. Throws
/// Error(unsupported) where there is no such symbol.
void add_code(std::span<std::uint8_t> lengths, std::span<const std::uint64_t> uses, unsigned symbol,
              unsigned longest);

}  // namespace bitrift::deflate
