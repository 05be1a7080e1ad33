#include "core/byte_cursor.h"

namespace bitrift {

std::uint64_t ByteCursor::number(unsigned bytes) {
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const std::uint8_t byte : take(bytes)) {
    value |= std::uint64_t{byte} << shift;
    shift += 8;
  }
  return value;
}

std::span<const std::uint8_t> ByteCursor::take(std::uint64_t count) {
  if (count > left()) fail(code_, "{}{}{} ends too early", name_, name_.empty() ? "" : ": ", what_);
  const auto piece = bytes_.subspan(at_, count);
  at_ += count;
  return piece;
}

}  // namespace bitrift
