// The blocks of a deflate stream (RFC 1951, 3.2.3 to 3.2.7) and the tokens in them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/deflate/bits.h"
#include "core/deflate/huffman.h"

namespace bitrift::deflate {

constexpr unsigned end_of_block = 256;
constexpr unsigned shortest_match = 3;
constexpr unsigned longest_match = 258;
constexpr std::uint64_t farthest_match = 32768;

/// A literal byte, or a copy of bytes that came before.
struct Token {
  std::uint64_t first_bit = 0, end_bit = 0;  ///< in the stream
  std::uint64_t at = 0;                      ///< place of its first byte in the content
  unsigned length = 0;                       ///< bytes of the content; 0 for the end of the block
  unsigned distance = 0;                     ///< distance to the bytes that are copied; 0 for a literal
  [[nodiscard]] std::uint64_t end() const noexcept { return at + length; }
};

/// A block: its header, and the codes of its tokens.
class Block {
 public:
  /// Reads the header at a bit of the stream. Throws Error(unsupported) for damage, and for headers that
  /// zlib's inflate does not accept either.
  void read(std::span<const std::uint8_t> stream, std::uint64_t bit);

  [[nodiscard]] bool last() const noexcept { return last_; }
  [[nodiscard]] bool stored() const noexcept { return kind_ == Kind::stored; }
  [[nodiscard]] std::uint64_t first_bit() const noexcept { return first_bit_; }
  /// The place where its tokens begin; for a stored block, its bytes.
  [[nodiscard]] std::uint64_t first_token() const noexcept { return first_token_; }
  /// For a stored block: its bytes, and the bits between its header and the next whole byte.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }
  [[nodiscard]] unsigned padding() const noexcept { return padding_; }

  /// The number of bits of a literal (or the end of the block), and of a match's two halves; 0: it has no
  /// code.
  [[nodiscard]] unsigned literal_bits(unsigned symbol) const noexcept { return literals_.length(symbol); }
  [[nodiscard]] unsigned length_bits(unsigned length) const noexcept;
  [[nodiscard]] unsigned distance_bits(unsigned distance) const noexcept;
  void put_literal(unsigned symbol, BitWriter& out) const { literals_.put(symbol, out); }
  void put_match(unsigned length, unsigned distance, BitWriter& out) const;

  /// The same block with codes for literals that have none, at the cost of the least used ones. `uses`: how
  /// often each literal and length symbol occurs. Throws Error(unsupported) if no space for a code can be
  /// made.
  [[nodiscard]] Block with_literals(std::span<const std::uint8_t> missing,
                                    std::span<const std::uint64_t> uses) const;
  /// The header of a block that with_literals() returned.
  void put_header(BitWriter& out) const;

 private:
  friend class TokenReader;
  enum class Kind : std::uint8_t { stored, fixed, dynamic };

  void read_stored(BitReader& from);
  void read_dynamic(BitReader& from);

  bool last_ = false;
  Kind kind_ = Kind::stored;
  unsigned padding_ = 0;
  std::uint64_t first_bit_ = 0, first_token_ = 0, stored_bytes_ = 0;
  HuffmanCode literals_, distances_, lengths_;  // lengths_: of the codes of the other two, as the header has
                                                // them
};

/// The symbol of a match's length, among those of literals.
[[nodiscard]] unsigned length_symbol(unsigned length) noexcept;

/// Reads the tokens of a block that is not stored.
class TokenReader {
 public:
  /// Starts at the first bit of a token, which produces byte `at` of the content. The objects that they refer
  /// to must outlive it.
  TokenReader(std::span<const std::uint8_t> stream, const Block& block, std::uint64_t bit, std::uint64_t at)
      : block_(&block), from_(stream, bit), at_(at) {}
  /// Throws Error(unsupported) for damage.
  [[nodiscard]] Token next() {
    Token token;
    token.first_bit = from_.bit();
    token.at = at_;
    symbol_ = block_->literals_.take(from_);
    if (symbol_ < end_of_block) {
      token.length = 1;
    } else if (symbol_ > end_of_block) {
      take_match(token);
    }
    from_.check();
    token.end_bit = from_.bit();
    at_ = token.end();
    return token;
  }
  /// Skips literals. Stops at the latest at another token, or shortly before byte `end` of the content.
  void skip_literals(std::uint64_t end) noexcept {
    constexpr unsigned at_once = BitReader::most / HuffmanCode::table_bits;
    while (at_ + at_once <= end && from_.whole()) {
      std::uint64_t bits = from_.peek();
      for (unsigned i = 0; i < at_once; ++i) {
        const HuffmanCode::Entry entry = block_->literals_.next(bits);
        if (entry.length == 0 || entry.symbol >= end_of_block) return;
        bits >>= entry.length;
        from_.skip(entry.length);
        ++at_;
      }
    }
  }
  /// For the last token: the literal, the end of the block, or the symbol of the length.
  [[nodiscard]] unsigned symbol() const noexcept { return symbol_; }

 private:
  void take_match(Token& token);
  const Block* block_;
  BitReader from_;
  std::uint64_t at_;
  unsigned symbol_ = 0;
};

}  // namespace bitrift::deflate
