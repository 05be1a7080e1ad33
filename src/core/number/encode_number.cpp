#include "core/number/encode_number.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "core/error.h"

namespace bitrift {
namespace {

__extension__ using Wide = unsigned __int128;

// The sum of `nearest` and `rest`; if it is not a double, the neighbouring double whose last bit is odd.
// Rounding that to fewer bits gives the rounded exact sum (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 57(4), 2008, theorem 1).
double round_to_odd(double nearest, double rest) {
  if (rest == 0 || !std::isfinite(nearest) || (std::bit_cast<std::uint64_t>(nearest) & 1) != 0)
    return nearest;
  return std::nextafter(
      nearest, rest > 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}

// |value| = whole * 2^power with 53 bits at most.
std::uint64_t split(double value, int& power) {
  const double fraction = std::frexp(std::fabs(value), &power);
  power -= 53;
  return static_cast<std::uint64_t>(std::ldexp(fraction, 53));
}

// whole * 2^power, exactly; nullopt if it is not an integer or takes more than 127 bits.
std::optional<Wide> shifted(Wide whole, int power) {
  for (; power < 0; ++power) {
    if ((whole & 1) != 0) return std::nullopt;
    if (whole == 0) return whole;
    whole >>= 1;
  }
  for (; power > 0; --power) {
    if (whole == 0) return whole;
    if (whole >> 126 != 0) return std::nullopt;
    whole <<= 1;
  }
  return whole;
}

std::optional<std::uint64_t> integer_pattern(const NumberFormat& format, bool negative, Wide magnitude) {
  const Wide most = max_pattern(format);
  if (!negative || magnitude == 0) {
    if (magnitude > most) return std::nullopt;
    return static_cast<std::uint64_t>(magnitude);
  }
  if (format.kind == NumberKind::unsigned_integer || magnitude > most + 1) return std::nullopt;
  return (~static_cast<std::uint64_t>(magnitude) + 1) & format.mask();
}

std::optional<std::uint64_t> scale_integer(const NumberFormat& format, std::uint64_t pattern, double factor) {
  const bool minus = (pattern & sign_mask(format)) != 0;
  const std::uint64_t magnitude = minus ? (~pattern + 1) & format.mask() : pattern;
  int power = 0;
  const std::uint64_t whole = split(factor, power);
  const auto product = shifted(static_cast<Wide>(magnitude) * whole, power);
  if (!product) return std::nullopt;
  return integer_pattern(format, minus != std::signbit(factor), *product);
}

/// The power of two that is nearest to a positive number; ties go to the larger one, whose hidden bit is
/// even.
std::uint64_t power_pattern(const NumberFormat& format, double value) {
  if (!(value > 0) || std::isinf(value)) return nan_pattern(format);
  const int bias = exponent_bias(format);
  int power = 0;
  const double fraction = std::frexp(value, &power);  // [0.5, 1)
  const int exponent = power - 1 + (fraction >= 0.75 ? 1 : 0) + bias;
  if (exponent < 0) return 0;
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(exponent), nan_pattern(format));
}

/// Zero and negative numbers are not powers of two, and not all formats have a NaN.
bool is_representable(const NumberFormat& format, double value) {
  if (std::isnan(value)) return format.has_nan();
  return format.has_sign() || value > 0;
}

}  // namespace

std::uint64_t encode_floating(const NumberFormat& format, double value) {
  if (format.kind != NumberKind::floating) {
    fail(ErrorCode::internal, "{} is not a floating-point format", format.name());
  }
  if (!format.has_sign()) return power_pattern(format, value);
  const std::uint64_t sign = std::signbit(value) ? sign_mask(format) : 0;
  const std::uint64_t overflow = !format.has_nan()    ? max_pattern(format)
                                 : format.finite_only ? nan_pattern(format)
                                                      : infinity_pattern(format);
  if (std::isnan(value)) return sign | nan_pattern(format);
  if (std::isinf(value)) return sign | overflow;
  if (value == 0) return format.unsigned_zero ? 0 : sign;
  const int bias = exponent_bias(format);
  const auto mantissa_bits = static_cast<int>(format.mantissa_bits);
  int power = 0;
  const std::uint64_t whole = split(value, power);  // 2^52 <= whole < 2^53
  // Exponent of the last stored bit: that of the value, or of the subnormal numbers.
  const int last = std::max(power + 52, 1 - bias) - mantissa_bits;
  const int drop = last - power;
  std::uint64_t kept = 0;
  if (drop <= 0) {
    kept = whole << -drop;
  } else if (drop <= 54) {
    kept = whole >> drop;
    const std::uint64_t rest = whole - (kept << drop);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  }
  // The hidden bit adds one to the exponent field, and so does a carry out of the mantissa.
  const auto field = static_cast<std::uint64_t>(last + mantissa_bits + bias - 1);
  const std::uint64_t magnitude = (field << mantissa_bits) + kept;
  if (magnitude == 0 && format.unsigned_zero) return 0;
  return sign | (magnitude > max_pattern(format) ? overflow : magnitude);
}

std::optional<std::uint64_t> scale_pattern(const NumberFormat& format, std::uint64_t pattern, double factor) {
  if (format.kind != NumberKind::floating) return scale_integer(format, pattern, factor);
  const double value = decode_number(format, pattern);
  if (std::isnan(value)) return pattern;
  const double product = value * factor;
  if (!is_representable(format, product)) return std::nullopt;
  // float64 is rounded by the multiplication itself; for other formats the exact product is rounded once.
  if (format.bytes == 8 || !std::isfinite(product)) return encode_floating(format, product);
  return encode_floating(format, round_to_odd(product, std::fma(value, factor, -product)));
}

std::optional<std::uint64_t> encode_text(const NumberFormat& format, std::string_view text) {
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  const char* const end = digits.data() + digits.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(digits.data(), end, value);
  if (rest != end || error == std::errc::invalid_argument ||
      (text.starts_with('+') && digits.starts_with('-'))) {
    fail(ErrorCode::bad_input, "'{}' is not a number: give one such as 3, -0.25, 1e-3, nan or inf", text);
  }
  if (format.kind == NumberKind::floating) {
    // Out of range, from_chars returns no value, strtod zero or infinity.
    if (error != std::errc{}) value = std::strtod(std::string(digits).c_str(), nullptr);
    if (!is_representable(format, value)) return std::nullopt;
    return encode_floating(format, value);
  }
  const bool negative = digits.starts_with('-');
  std::uint64_t magnitude = 0;
  const auto [after, range] = std::from_chars(digits.data() + (negative ? 1 : 0), end, magnitude);
  if (after != end || range != std::errc{}) return std::nullopt;
  return integer_pattern(format, negative, magnitude);
}

}  // namespace bitrift
