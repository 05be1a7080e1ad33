#include "archive/npy_text.h"

#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr std::uint32_t end_of_unicode = 0x110000;

bool is_character(std::uint32_t code) {
  // the range between them is that of the surrogates
  return code < end_of_unicode && (code < 0xd800 || code >= 0xe000);
}

/// The number of bytes of a character, of which UTF-8 allows the shortest form only.
unsigned utf8_bytes(std::uint32_t code) {
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

/// Removes a character from the front; nullopt if there is no valid one.
std::optional<std::uint32_t> take_character(std::string_view& text) {
  const auto lead = static_cast<std::uint8_t>(text.front());
  const unsigned bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if ((lead >= 0x80 && lead < 0xc0) || lead >= 0xf8 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = bytes == 1 ? lead : lead & (0x7fU >> bytes);
  for (unsigned i = 1; i < bytes; ++i) {
    const auto next = static_cast<std::uint8_t>(text[i]);
    if ((next & 0xc0U) != 0x80) return std::nullopt;
    code = code << 6U | (next & 0x3fU);
  }
  if (!is_character(code) || utf8_bytes(code) != bytes) return std::nullopt;
  text.remove_prefix(bytes);
  return code;
}

}  // namespace

std::vector<std::uint8_t> utf32_of(std::string_view utf8, const std::string& what) {
  std::vector<std::uint8_t> out;
  out.reserve(4 * utf8.size());
  while (!utf8.empty()) {
    const auto code = take_character(utf8);
    if (!code) fail(ErrorCode::bad_input, "{}: its text is not valid UTF-8", what);
    for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::uint8_t>(*code >> (8 * i)));
  }
  return out;
}

std::optional<std::string> utf8_of(std::span<const std::uint8_t> utf32, bool big_endian) {
  std::string out;
  std::size_t kept = 0;  // up to the last character that is not zero
  for (std::size_t at = 0; at + 4 <= utf32.size(); at += 4) {
    std::uint32_t code = 0;
    for (unsigned i = 0; i < 4; ++i) code = code << 8U | utf32[at + (big_endian ? i : 3 - i)];
    if (!is_character(code)) return std::nullopt;
    const unsigned bytes = utf8_bytes(code);
    const unsigned mark = bytes == 1 ? 0 : 0xf0U << (4 - bytes) & 0xffU;
    out += static_cast<char>(mark | code >> (6 * (bytes - 1)));
    for (unsigned i = bytes - 1; i-- > 0;) out += static_cast<char>(0x80U | (code >> (6 * i) & 0x3fU));
    if (code != 0) kept = out.size();
  }
  out.resize(kept);
  return out;
}

}  // namespace bitrift::archive
