#include "core/deflate/huffman.h"

#include <algorithm>

namespace bitrift::deflate {

void HuffmanCode::assign(std::span<const std::uint8_t> lengths, bool sparse) {
  count_.fill(0);
  for (const std::uint8_t length : lengths) ++count_[length];
  count_[0] = 0;
  std::uint32_t left = std::uint32_t{1} << longest;  // the code space that is used, in codes of the longest
                                                     // length
  std::array<std::uint32_t, longest + 2> next{};     // first code of each length
  std::array<std::uint32_t, longest + 2> rank{};     // its index among all codes
  unsigned deepest = 0;
  for (unsigned length = 1; length <= longest; ++length) {
    if (count_[length] > 0) deepest = length;
    const std::uint32_t taken = std::uint32_t{count_[length]} << (longest - length);
    if (taken > left) fail(ErrorCode::unsupported, "deflated data has a code with too many symbols");
    left -= taken;
    next[length + 1] = (next[length] + count_[length]) << 1U;
    rank[length + 1] = rank[length] + count_[length];
  }
  if (left != 0 && !(sparse && rank[longest + 1] == count_[1])) {
    fail(ErrorCode::unsupported, "deflated data has a code that is not complete");
  }
  symbols_ = lengths.size();
  lengths_.fill(0);
  std::copy(lengths.begin(), lengths.end(), lengths_.begin());
  const std::size_t used = std::size_t{1} << std::min(deepest, table_bits);
  mask_ = used - 1;
  std::fill_n(table_.begin(), used, Entry{});
  for (unsigned symbol = 0; symbol < symbols_; ++symbol) {
    const unsigned length = lengths_[symbol];
    if (length == 0) continue;
    sorted_[rank[length]++] = static_cast<std::uint16_t>(symbol);
    const std::uint32_t code = next[length]++;
    std::uint32_t reversed = 0;
    for (unsigned i = 0; i < length; ++i) reversed |= (code >> i & 1U) << (length - 1 - i);
    bits_[symbol] = static_cast<std::uint16_t>(reversed);
    if (length > table_bits) continue;
    for (std::size_t at = reversed; at < used; at += std::size_t{1} << length) {
      table_[at] = {static_cast<std::uint16_t>(symbol), static_cast<std::uint8_t>(length)};
    }
  }
}

unsigned HuffmanCode::take_long(BitReader& from) const {
  std::uint64_t bits = from.peek();
  std::uint32_t code = 0;
  std::uint32_t first = 0;  // first code of each length
  std::uint32_t rank = 0;   // its index among all codes
  for (unsigned length = 1; length <= longest; ++length, bits >>= 1U) {
    code |= bits & 1U;
    if (code < first + count_[length]) {
      from.skip(length);
      return sorted_[rank + code - first];
    }
    rank += count_[length];
    first = (first + count_[length]) << 1U;
    code <<= 1U;
  }
  fail(ErrorCode::unsupported, "deflated data has a code that stands for nothing");
}

void add_code(std::span<std::uint8_t> lengths, std::span<const std::uint64_t> uses, unsigned symbol,
              unsigned longest) {
  std::size_t best = lengths.size();
  for (std::size_t other = 0; other < lengths.size(); ++other) {
    if (lengths[other] == 0 || lengths[other] >= longest) continue;
    const bool better = best == lengths.size() || uses[other] < uses[best] ||
                        (uses[other] == uses[best] && lengths[other] > lengths[best]);
    if (better) best = other;
  }
  if (best == lengths.size()) fail(ErrorCode::unsupported, "a code has no room for one more symbol");
  lengths[symbol] = ++lengths[best];
}

}  // namespace bitrift::deflate
