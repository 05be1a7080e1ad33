#include "core/byte_size.h"

#include <charconv>
#include <cmath>

#include "core/error.h"

namespace bitrift {
namespace {

constexpr std::string_view units = "KMGT";
constexpr double most_bytes = 9007199254740992.0;  // every JSON reader keeps numbers up to here exact

}  // namespace

std::uint64_t parse_byte_size(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  bool well = parsed.ec == std::errc() && parsed.ptr != text.data();
  if (well && !unit.empty()) {
    const auto power = units.find(unit.front());
    const std::string_view rest = unit.substr(1);
    well = power != std::string_view::npos && (rest.empty() || rest == "iB");
    if (well) number = std::ldexp(number, 10 * (static_cast<int>(power) + 1));
  }
  if (!well || !(number >= 1) || number > most_bytes) {
    fail(ErrorCode::bad_input, "'{}' is not a number of bytes; write it as 4294967296, 512M or 1.5G", text);
  }
  return static_cast<std::uint64_t>(number);
}

std::string byte_size_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  auto number = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; number >= 999.5 && unit + 1 < units.size(); ++unit) number /= 1024;
  return fmt::format("{:.{}f} {}iB", number, number < 9.95 ? 1 : 0, units[unit]);
}

}  // namespace bitrift
