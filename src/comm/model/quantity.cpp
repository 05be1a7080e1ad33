#include "comm/model/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr double most_bytes = 1e15;
constexpr double most_seconds = 1e3;

using Unit = std::pair<std::string_view, int>;  // and the power of ten that it multiplies
constexpr std::array<Unit, 5> thousands{{{"", 0}, {"K", 3}, {"M", 6}, {"G", 9}, {"T", 12}}};
constexpr std::array<Unit, 4> times{{{"ns", -9}, {"us", -6}, {"ms", -3}, {"s", 0}}};

// Digits, optionally a point and more digits; without sign, exponent or space.
std::optional<double> parsed(std::string_view text, std::span<const Unit> units) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  if (number.empty() || number.front() == '.' || number.back() == '.') return std::nullopt;
  for (const auto& [name, power] : units) {
    if (text.substr(end) != name) continue;
    // In one step, because 500 times 1e-9 is not the number closest to 500e-9.
    const std::string whole = fmt::format("{}e{}", number, power);
    double value = 0;
    const auto [stop, error] = std::from_chars(whole.data(), whole.data() + whole.size(), value);
    if (error != std::errc() || stop != whole.data() + whole.size()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

std::string in_unit(double value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (value >= std::pow(10.0, unit.second)) best = &unit;
  const double shown = value / std::pow(10.0, best->second);
  return fmt::format("{:.{}f} {}", shown, shown < 10 ? 3 : shown < 100 ? 2 : 1, best->first);
}

}  // namespace

double bytes_from_text(std::string_view text, std::string_view what) {
  const std::optional<double> value = parsed(text, thousands);
  if (!value || std::round(*value) < 1 || *value > most_bytes) {
    fail(ErrorCode::bad_input,
         "{} '{}': expected bytes as a number and nothing, K, M, G or T, such as 102M; 1 to 1000T", what,
         text);
  }
  return std::round(*value);
}

double bandwidth_from_text(std::string_view text, std::string_view what) {
  const std::optional<double> value = parsed(text, thousands);
  if (!value || std::round(*value) < 1 || *value > most_bytes) {
    fail(ErrorCode::bad_input,
         "{} '{}': expected bytes per second as a number and nothing, K, M, G or T, such as 83G; 1 to 1000T",
         what, text);
  }
  return std::round(*value);
}

double seconds_from_text(std::string_view text, std::string_view what) {
  const std::optional<double> value = parsed(text, times);
  if (!value || *value > most_seconds) {
    fail(ErrorCode::bad_input,
         "{} '{}': expected a time as a number and ns, us, ms or s, such as 0.1us; at most 1000s", what,
         text);
  }
  return *value;
}

std::string seconds_text(double seconds) { return in_unit(seconds, times); }

std::string bytes_text(double bytes) { return in_unit(bytes, thousands) + "B"; }

}  // namespace bitrift::comm
