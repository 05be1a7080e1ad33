#include "core/text/natural_order.h"

#include <cctype>
#include <cstddef>

namespace bitrift {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The digits at the front of a text, without leading zeros.
std::string_view number_at_front(std::string_view text, std::size_t& length) {
  length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  std::size_t zeros = 0;
  while (zeros + 1 < length && text[zeros] == '0') ++zeros;
  return text.substr(zeros, length - zeros);
}

}  // namespace

bool natural_less(std::string_view first, std::string_view second) {
  const std::string_view whole_first = first;
  const std::string_view whole_second = second;
  while (!first.empty() && !second.empty()) {
    if (is_digit(first.front()) && is_digit(second.front())) {
      std::size_t length = 0;
      std::size_t other_length = 0;
      const std::string_view number = number_at_front(first, length);
      const std::string_view other = number_at_front(second, other_length);
      if (number.size() != other.size()) return number.size() < other.size();
      if (number != other) return number < other;
      first.remove_prefix(length);
      second.remove_prefix(other_length);
    } else {
      if (first.front() != second.front()) return first.front() < second.front();
      first.remove_prefix(1);
      second.remove_prefix(1);
    }
  }
  if (first.empty() && second.empty()) return whole_first < whole_second;
  return first.empty();
}

}  // namespace bitrift
