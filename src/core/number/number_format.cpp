#include "core/number/number_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace bitrift {
namespace {

constexpr NumberFormat floating(unsigned bytes, unsigned exponent, unsigned mantissa, bool finite_only,
                                bool unsigned_zero = false, unsigned precision = 0) {
  return {NumberKind::floating, bytes,         exponent,  mantissa, ByteOrder::little,
          finite_only,          unsigned_zero, precision, 0};
}
constexpr NumberFormat integer(NumberKind kind, unsigned bytes, unsigned precision = 0) {
  return {kind, bytes, 0, 0, ByteOrder::little, false, false, precision, 0};
}

constexpr std::array named_formats = {
    std::pair{std::string_view{"float64"}, floating(8, 11, 52, false)},
    std::pair{std::string_view{"float32"}, floating(4, 8, 23, false)},
    std::pair{std::string_view{"float16"}, floating(2, 5, 10, false)},
    std::pair{std::string_view{"bfloat16"}, floating(2, 8, 7, false)},
    std::pair{std::string_view{"float8_e5m2"}, floating(1, 5, 2, false)},
    std::pair{std::string_view{"float8_e4m3fn"}, floating(1, 4, 3, true)},
    std::pair{std::string_view{"float8_e4m3fnuz"}, floating(1, 4, 3, true, true)},
    std::pair{std::string_view{"float8_e5m2fnuz"}, floating(1, 5, 2, true, true)},
    std::pair{std::string_view{"float8_e8m0"}, floating(1, 8, 0, true)},
    std::pair{std::string_view{"float4_e2m1"}, floating(1, 2, 1, true, false, 4)},
    std::pair{std::string_view{"int8"}, integer(NumberKind::signed_integer, 1)},
    std::pair{std::string_view{"int16"}, integer(NumberKind::signed_integer, 2)},
    std::pair{std::string_view{"int32"}, integer(NumberKind::signed_integer, 4)},
    std::pair{std::string_view{"int64"}, integer(NumberKind::signed_integer, 8)},
    std::pair{std::string_view{"uint8"}, integer(NumberKind::unsigned_integer, 1)},
    std::pair{std::string_view{"uint16"}, integer(NumberKind::unsigned_integer, 2)},
    std::pair{std::string_view{"uint32"}, integer(NumberKind::unsigned_integer, 4)},
    std::pair{std::string_view{"uint64"}, integer(NumberKind::unsigned_integer, 8)},
    std::pair{std::string_view{"bool"}, integer(NumberKind::unsigned_integer, 1, 1)},
};

// "intP_in_W" or "uintP_in_W_at_O": integers with padding.
std::optional<NumberFormat> padded_integer(std::string_view name) {
  NumberFormat format =
      integer(name.starts_with('u') ? NumberKind::unsigned_integer : NumberKind::signed_integer, 0);
  if (name.starts_with('u')) name.remove_prefix(1);
  const auto take = [&](std::string_view word, unsigned& out) {
    if (!name.starts_with(word)) return false;
    const char* const begin = name.data() + word.size();
    const auto [rest, error] = std::from_chars(begin, name.data() + name.size(), out);
    if (error != std::errc{} || *begin == '0') return false;
    name.remove_prefix(static_cast<std::size_t>(rest - name.data()));
    return true;
  };
  unsigned stored = 0;
  if (!take("int", format.precision) || !take("_in_", stored)) return std::nullopt;
  if (!name.empty() && (!take("_at_", format.bit_offset) || !name.empty())) return std::nullopt;
  const bool whole_bytes = stored == 8 || stored == 16 || stored == 32 || stored == 64;
  if (!whole_bytes || format.precision >= stored || format.bit_offset > stored - format.precision) {
    return std::nullopt;
  }
  format.bytes = stored / 8;
  return format;
}

struct Range {
  unsigned low;
  unsigned high;
};

// "7", "3-9" or "3,7,30"; nullopt when the text is neither.
std::optional<std::vector<Range>> parse_numbers(std::string_view text) {
  std::vector<Range> ranges;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](unsigned& out) {
    const auto [rest, error] = std::from_chars(at, end, out);
    if (error != std::errc{} || out >= 64) return false;
    at = rest;
    return true;
  };
  while (true) {
    Range range{};
    if (!number(range.low)) return std::nullopt;
    range.high = range.low;
    if (at != end && *at == '-') {
      ++at;
      if (!number(range.high) || range.high < range.low) return std::nullopt;
    }
    ranges.push_back(range);
    if (at == end) return ranges;
    if (*at++ != ',') return std::nullopt;
  }
}

bool is_named_field(std::string_view field) {
  return field == "any" || field == "sign" || field == "exponent" || field == "mantissa" ||
         field == "exponent_msb";
}

std::vector<unsigned> span_of_bits(unsigned low, unsigned count) {
  std::vector<unsigned> bits(count);
  for (unsigned i = 0; i < count; ++i) bits[i] = low + i;
  return bits;
}

std::vector<unsigned> named_field(const NumberFormat& format, std::string_view field) {
  const bool has_sign = format.has_sign();
  const unsigned top = format.bits() - 1;
  if (field == "any") return span_of_bits(0, format.bits());
  if (field == "sign") return has_sign ? span_of_bits(top, 1) : std::vector<unsigned>{};
  if (format.kind != NumberKind::floating) {
    return field == "mantissa" ? span_of_bits(0, has_sign ? top : top + 1) : std::vector<unsigned>{};
  }
  if (field == "exponent") return span_of_bits(format.mantissa_bits, format.exponent_bits);
  if (field == "exponent_msb") return span_of_bits(has_sign ? top - 1 : top, 1);
  return span_of_bits(0, format.mantissa_bits);
}

}  // namespace

std::string NumberFormat::name() const {
  NumberFormat in_memory = *this;
  in_memory.order = ByteOrder::little;
  for (const auto& [text, format] : named_formats) {
    if (format == in_memory) return std::string(text);
  }
  if (kind == NumberKind::floating)
    return fmt::format("float{}_e{}m{}", bits(), exponent_bits, mantissa_bits);
  std::string text =
      fmt::format("{}int{}_in_{}", kind == NumberKind::signed_integer ? "" : "u", bits(), bytes * 8);
  return bit_offset == 0 ? text : text + fmt::format("_at_{}", bit_offset);
}

std::optional<NumberFormat> number_format(std::string_view name) {
  for (const auto& [text, format] : named_formats) {
    if (text == name) return format;
  }
  return padded_integer(name);
}

const std::vector<std::string>& number_format_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(std::size(named_formats));
    for (const auto& [text, format] : named_formats) all.emplace_back(text);
    return all;
  }();
  return names;
}

void check_bit_field(std::string_view field) {
  if (is_named_field(field) || parse_numbers(field)) return;
  fail_at(
      ErrorCode::bad_input, "bits",
      "'{}' is not a bit field: give any, sign, exponent, mantissa, exponent_msb, a range such as 23-30 or "
      "a list such "
      "as 3,7,30 (bit 0 is the least significant)",
      field);
}

std::vector<unsigned> bit_field(const NumberFormat& format, std::string_view field) {
  check_bit_field(field);
  if (is_named_field(field)) return named_field(format, field);
  std::vector<unsigned> bits;
  const auto ranges = parse_numbers(field);
  for (const auto [low, high] : ranges.value()) {
    for (unsigned bit = low; bit <= high; ++bit) {
      // A bit beyond the width means that the format lacks the field; a part of the field is not meant.
      if (bit >= format.bits()) return {};
      bits.push_back(bit);
    }
  }
  std::sort(bits.begin(), bits.end());
  bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
  return bits;
}

std::string field_of_bit(const NumberFormat& format, unsigned bit) {
  if (format.has_sign() && bit == format.bits() - 1) return "sign";
  if (format.kind == NumberKind::floating && bit >= format.mantissa_bits) return "exponent";
  return "mantissa";
}

std::uint64_t sign_mask(const NumberFormat& format) noexcept {
  return format.has_sign() ? std::uint64_t{1} << (format.bits() - 1) : 0;
}

bool is_finite(const NumberFormat& format, std::uint64_t pattern) noexcept {
  if (!format.has_nan()) return true;
  if (format.unsigned_zero) return (pattern & format.mask()) != sign_mask(format);
  const std::uint64_t magnitude = pattern & format.mask() & ~sign_mask(format);
  if (format.finite_only) return magnitude != (format.mask() & ~sign_mask(format));
  return magnitude < ((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
}

int exponent_bias(const NumberFormat& format) noexcept {
  return (1 << (format.exponent_bits - 1)) - 1 + (format.unsigned_zero ? 1 : 0);
}

double decode_number(const NumberFormat& format, std::uint64_t pattern) noexcept {
  const unsigned width = format.bits();
  if (format.kind == NumberKind::unsigned_integer) return static_cast<double>(pattern);
  if (format.kind == NumberKind::signed_integer) {
    const unsigned unused = 64 - width;
    return static_cast<double>(static_cast<std::int64_t>(pattern << unused) >> unused);
  }
  const std::uint64_t mantissa = pattern & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  const auto exponent_mask = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(pattern >> format.mantissa_bits) & exponent_mask;
  const int bias = exponent_bias(format);
  const double sign = (pattern & sign_mask(format)) != 0 ? -1.0 : 1.0;
  const auto fraction_bits = static_cast<int>(format.mantissa_bits);
  if (!is_finite(format, pattern)) {
    const bool nan = format.finite_only || mantissa != 0;
    return std::copysign(
        nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity(), sign);
  }
  if (!format.has_sign()) return std::ldexp(1.0, exponent - bias);
  const double hidden = exponent == 0 ? 0.0 : std::ldexp(1.0, fraction_bits);
  return sign *
         std::ldexp(static_cast<double>(mantissa) + hidden, std::max(exponent, 1) - bias - fraction_bits);
}

std::uint64_t infinity_pattern(const NumberFormat& format) {
  if (format.kind != NumberKind::floating) {
    fail(ErrorCode::unsupported, "{} has no infinity and no NaN; restrict the selection to floating tensors",
         format.name());
  }
  if (format.finite_only) {
    fail(ErrorCode::unsupported, "{} has no infinity; choose other tensors, or NaN", format.name());
  }
  return ((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
}

std::uint64_t nan_pattern(const NumberFormat& format) {
  if (format.kind == NumberKind::floating && !format.has_nan())
    fail(ErrorCode::unsupported, "{} has no NaN; choose other tensors", format.name());
  if (format.unsigned_zero) return sign_mask(format);
  if (format.finite_only) return format.mask() & ~sign_mask(format);
  const std::uint64_t infinity =
      infinity_pattern(format);  // refuses integers, which cannot be shifted by a mantissa
  return infinity | std::uint64_t{1} << (format.mantissa_bits - 1);
}

std::uint64_t max_pattern(const NumberFormat& format) noexcept {
  const std::uint64_t magnitude = format.mask() & ~sign_mask(format);
  if (!format.has_nan() || format.unsigned_zero) return magnitude;
  if (format.finite_only) return magnitude - 1;
  return (((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits) - 1;
}

std::uint64_t load_pattern(const NumberFormat& format, const std::uint8_t* stored) noexcept {
  std::uint64_t word = 0;
  for (unsigned i = 0; i < format.bytes; ++i) {
    const unsigned place = format.order == ByteOrder::little ? i : format.bytes - 1 - i;
    word |= static_cast<std::uint64_t>(stored[i]) << (8 * place);
  }
  return word >> format.bit_offset & format.mask();
}

void store_pattern(const NumberFormat& format, std::uint64_t pattern, std::uint8_t* stored) noexcept {
  const std::uint64_t mask = format.mask() << format.bit_offset;
  const std::uint64_t word = pattern << format.bit_offset & mask;
  for (unsigned i = 0; i < format.bytes; ++i) {
    const unsigned place = 8 * (format.order == ByteOrder::little ? i : format.bytes - 1 - i);
    stored[i] = static_cast<std::uint8_t>((stored[i] & ~(mask >> place)) | word >> place);
  }
}

}  // namespace bitrift
