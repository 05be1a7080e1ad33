#include "core/deflate/deflate_block.h"

#include <algorithm>
#include <bit>

namespace bitrift::deflate {
namespace {

constexpr std::size_t literal_symbols = 288, distance_symbols = 32, length_code_symbols = 19;
constexpr unsigned first_length_symbol = 257, last_length_symbol = 285;
constexpr unsigned longest_length_code = 7;
// RFC 1951, 3.2.7: the order in which the header has the lengths of the code for the other lengths.
constexpr std::array<std::uint8_t, length_code_symbols> header_order = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                                        11, 4,  12, 3, 13, 2, 14, 1, 15};
// In that code: symbols that repeat the last length, a few zeros, or many.
constexpr unsigned repeat = 16, few_zeros = 17, many_zeros = 18;

struct Range {
  std::uint16_t first = 0;
  std::uint8_t extra = 0;  ///< extra bits that select a value in the range
};

// RFC 1951, 3.2.5.
constexpr std::array<Range, 29> length_ranges = {
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};
constexpr std::array<Range, 30> distance_ranges = {
    {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},     {9, 2},     {13, 2},
     {17, 3},    {25, 3},    {33, 4},    {49, 4},     {65, 5},     {97, 5},    {129, 6},   {193, 6},
     {257, 7},   {385, 7},   {513, 8},   {769, 8},    {1025, 9},   {1537, 9},  {2049, 10}, {3073, 10},
     {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}}};

constexpr auto symbols_of_lengths = [] {
  std::array<std::uint8_t, longest_match + 1> symbols{};
  for (unsigned range = 0; range < length_ranges.size(); ++range) {
    for (unsigned length = length_ranges[range].first; length <= longest_match; ++length) {
      symbols[length] = static_cast<std::uint8_t>(range);
    }
  }
  return symbols;
}();

unsigned distance_symbol(unsigned distance) noexcept {
  const auto after =
      std::upper_bound(distance_ranges.begin(), distance_ranges.end(), distance,
                       [](unsigned wanted, const Range& range) { return wanted < range.first; });
  return static_cast<unsigned>(after - distance_ranges.begin()) - 1;
}

/// How a header encodes lengths: a symbol, and its extra bits.
struct LengthWord {
  unsigned symbol = 0, extra = 0, extra_bits = 0;
};

/// Runs are encoded with those repeating symbols that already have a code.
std::vector<LengthWord> words_for(std::span<const std::uint8_t> lengths, const HuffmanCode& code) {
  std::vector<LengthWord> words;
  for (std::size_t i = 0; i < lengths.size();) {
    const std::uint8_t length = lengths[i];
    std::size_t end = i;
    while (end < lengths.size() && lengths[end] == length) ++end;
    auto run = static_cast<unsigned>(end - i);
    if (length != 0) {
      words.push_back({length, 0, 0});
      --run;
    }
    while (run > 0) {
      if (length != 0 && run >= 3 && code.length(repeat) > 0) {
        const unsigned count = std::min(run, 6U);
        words.push_back({repeat, count - 3, 2});
        run -= count;
      } else if (length == 0 && run >= 11 && code.length(many_zeros) > 0) {
        const unsigned count = std::min(run, 138U);
        words.push_back({many_zeros, count - 11, 7});
        run -= count;
      } else if (length == 0 && run >= 3 && code.length(few_zeros) > 0) {
        const unsigned count = std::min(run, 10U);
        words.push_back({few_zeros, count - 3, 3});
        run -= count;
      } else {
        words.push_back({length, 0, 0});
        --run;
      }
    }
    i = end;
  }
  return words;
}

}  // namespace

unsigned length_symbol(unsigned length) noexcept { return first_length_symbol + symbols_of_lengths[length]; }

void Block::read(std::span<const std::uint8_t> stream, std::uint64_t bit) {
  BitReader from(stream, bit);
  first_bit_ = bit;
  last_ = from.take(1) != 0;
  switch (from.take(2)) {
    case 0:
      kind_ = Kind::stored;
      read_stored(from);
      break;
    case 1: {
      kind_ = Kind::fixed;
      std::array<std::uint8_t, literal_symbols> lengths{};
      std::fill_n(lengths.begin(), 144, 8);
      std::fill(lengths.begin() + 144, lengths.begin() + 256, 9);
      std::fill(lengths.begin() + 256, lengths.begin() + 280, 7);
      std::fill(lengths.begin() + 280, lengths.end(), 8);
      literals_.assign(lengths, false);
      distances_.assign(std::vector<std::uint8_t>(distance_symbols, 5), false);
      break;
    }
    case 2:
      kind_ = Kind::dynamic;
      read_dynamic(from);
      break;
    default:
      fail(ErrorCode::unsupported, "deflated data has a block of an unknown kind");
  }
  from.check();
  first_token_ = from.bit();
}

void Block::read_stored(BitReader& from) {
  padding_ = static_cast<unsigned>(-from.bit() & 7U);
  from.skip(padding_);
  stored_bytes_ = from.take(16);
  if (from.take(16) != (~stored_bytes_ & 0xffffU)) {
    fail(ErrorCode::unsupported, "deflated data has a stored block without a length");
  }
}

void Block::read_dynamic(BitReader& from) {
  const auto literals = static_cast<std::size_t>(257 + from.take(5));
  const auto distances = static_cast<std::size_t>(1 + from.take(5));
  const auto codes = static_cast<std::size_t>(4 + from.take(4));
  std::array<std::uint8_t, length_code_symbols> own{};
  for (std::size_t i = 0; i < codes; ++i) own[header_order[i]] = static_cast<std::uint8_t>(from.take(3));
  lengths_.assign(own, false);
  std::vector<std::uint8_t> lengths;
  while (lengths.size() < literals + distances) {
    from.check();
    const unsigned symbol = lengths_.take(from);
    if (symbol < repeat) {
      lengths.push_back(static_cast<std::uint8_t>(symbol));
    } else if (symbol == repeat) {
      if (lengths.empty()) fail(ErrorCode::unsupported, "deflated data repeats a length before the first");
      lengths.insert(lengths.end(), 3 + from.take(2), std::uint8_t{lengths.back()});
    } else {
      lengths.insert(lengths.end(), symbol == few_zeros ? 3 + from.take(3) : 11 + from.take(7), 0);
    }
  }
  if (lengths.size() != literals + distances || literals > 286 || distances > 30 ||
      lengths[end_of_block] == 0) {
    fail(ErrorCode::unsupported, "deflated data has a block with invalid codes");
  }
  const std::span all(lengths);
  literals_.assign(all.first(literals), true);
  distances_.assign(all.subspan(literals), true);
}

unsigned Block::length_bits(unsigned length) const noexcept {
  const unsigned symbol = length_symbol(length);
  const unsigned bits = literals_.length(symbol);
  return bits == 0 ? 0 : bits + length_ranges[symbol - first_length_symbol].extra;
}

unsigned Block::distance_bits(unsigned distance) const noexcept {
  const unsigned symbol = distance_symbol(distance);
  const unsigned bits = distances_.length(symbol);
  return bits == 0 ? 0 : bits + distance_ranges[symbol].extra;
}

void Block::put_match(unsigned length, unsigned distance, BitWriter& out) const {
  const unsigned symbol = length_symbol(length);
  const Range& lengths = length_ranges[symbol - first_length_symbol];
  literals_.put(symbol, out);
  out.put(length - lengths.first, lengths.extra);
  const unsigned far = distance_symbol(distance);
  distances_.put(far, out);
  out.put(distance - distance_ranges[far].first, distance_ranges[far].extra);
}

Block Block::with_literals(std::span<const std::uint8_t> missing, std::span<const std::uint64_t> uses) const {
  std::vector<std::uint8_t> lengths(literals_.lengths().begin(), literals_.lengths().end());
  for (const std::uint8_t literal : missing) add_code(lengths, uses, literal, HuffmanCode::longest);
  Block block = *this;
  block.literals_.assign(lengths, true);
  // New lengths may need symbols for which the header's code has no word.
  lengths.insert(lengths.end(), distances_.lengths().begin(), distances_.lengths().end());
  std::vector<std::uint8_t> own(lengths_.lengths().begin(), lengths_.lengths().end());
  const std::vector<LengthWord> words = words_for(lengths, lengths_);
  std::array<std::uint64_t, length_code_symbols> own_uses{};
  for (const LengthWord& word : words) ++own_uses[word.symbol];
  for (const LengthWord& word : words) {
    if (own[word.symbol] == 0) add_code(own, own_uses, word.symbol, longest_length_code);
  }
  block.lengths_.assign(own, false);
  return block;
}

void Block::put_header(BitWriter& out) const {
  out.put(last_ ? 1 : 0, 1);
  out.put(2, 2);
  std::size_t codes = length_code_symbols;
  while (codes > 4 && lengths_.length(header_order[codes - 1]) == 0) --codes;
  out.put(literals_.lengths().size() - 257, 5);
  out.put(distances_.lengths().size() - 1, 5);
  out.put(codes - 4, 4);
  for (std::size_t i = 0; i < codes; ++i) out.put(lengths_.length(header_order[i]), 3);
  std::vector<std::uint8_t> lengths(literals_.lengths().begin(), literals_.lengths().end());
  lengths.insert(lengths.end(), distances_.lengths().begin(), distances_.lengths().end());
  for (const LengthWord& word : words_for(lengths, lengths_)) {
    lengths_.put(word.symbol, out);
    out.put(word.extra, word.extra_bits);
  }
}

void TokenReader::take_match(Token& token) {
  if (symbol_ > last_length_symbol) fail(ErrorCode::unsupported, "deflated data has an invalid length");
  const Range& lengths = length_ranges[symbol_ - first_length_symbol];
  token.length = lengths.first + static_cast<unsigned>(from_.take(lengths.extra));
  const unsigned far = block_->distances_.take(from_);
  if (far >= distance_ranges.size()) fail(ErrorCode::unsupported, "deflated data has an invalid distance");
  token.distance = distance_ranges[far].first + static_cast<unsigned>(from_.take(distance_ranges[far].extra));
  if (token.distance > token.at) fail(ErrorCode::unsupported, "deflated data copies bytes before its first");
}

}  // namespace bitrift::deflate
