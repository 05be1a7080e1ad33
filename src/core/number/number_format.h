// The layout of a number in bits: floating formats, integers, and the bit fields that faults aim at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift {

enum class NumberKind { floating, signed_integer, unsigned_integer };
enum class ByteOrder { little, big };

/// A number format as stored. Bit 0 is the least significant bit of the value, whatever the byte order.
struct NumberFormat {
  NumberKind kind = NumberKind::floating;
  unsigned bytes = 4;          ///< stored size: 1, 2, 4 or 8
  unsigned exponent_bits = 8;  ///< 0 for integers
  /// Stored bits, without the hidden one; 0 for integers, and for powers of two (float8_e8m0), which have
  /// neither a sign nor a zero ("OCP Microscaling Formats (MX) Specification", version 1.0, section 5.4.1).
  unsigned mantissa_bits = 23;
  ByteOrder order = ByteOrder::little;
  /// Floating: no infinity, and NaN only where all bits but the sign are ones (float8_e4m3fn; Micikevicius et
  /// al., "FP8 formats for deep learning", 2022, section 3), if has_nan().
  bool finite_only = false;
  /// Floating: one zero, NaN in the place of the negative one, and a bias larger by one (float8_e4m3fnuz,
  /// _e5m2fnuz; Noune et al., "8-bit numerical formats for deep neural networks", 2022, section 2).
  /// finite_only, too.
  bool unsigned_zero = false;
  /// Numbers whose value takes fewer bits than are stored (HDF5's precision, and float4_e2m1, of which a byte
  /// of a file holds two): bits of the value, 0 for all.
  unsigned precision = 0;
  unsigned bit_offset = 0;  ///< and the stored bit that is the value's bit 0

  /// Width of the value; stored bits outside of it (padding) belong to no field and are never altered.
  [[nodiscard]] unsigned bits() const noexcept { return precision != 0 ? precision : bytes * 8; }
  /// Whether a bit is the sign: not in unsigned integers and powers of two.
  [[nodiscard]] bool has_sign() const noexcept {
    return kind == NumberKind::signed_integer || (kind == NumberKind::floating && mantissa_bits != 0);
  }
  /// Not integers, nor floating formats of less than a byte (the same specification, section 5.3.3).
  [[nodiscard]] bool has_nan() const noexcept { return kind == NumberKind::floating && bits() >= 8; }
  /// All bits of the value.
  [[nodiscard]] std::uint64_t mask() const noexcept { return ~std::uint64_t{0} >> (64 - bits()); }
  /// "float32", "bfloat16", "int64", "uint8", "bool", "int17_in_32", "uint12_in_16_at_4", ...; without the
  /// byte order. number_format() reads it back.
  [[nodiscard]] std::string name() const;
  bool operator==(const NumberFormat&) const = default;
};

/// float64, float32, float16, bfloat16, float8_e5m2, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2fnuz,
/// float8_e8m0, float4_e2m1 (in the low half of a byte), int8..int64, uint8..uint64, bool (bit 0 of a byte),
/// and integers of fewer bits than are stored: [u]intBITS_in_STORED[_at_OFFSET]; nullopt for any other name.
[[nodiscard]] std::optional<NumberFormat> number_format(std::string_view name);
/// The names of all formats that have a name of their own, in the order above.
[[nodiscard]] const std::vector<std::string>& number_format_names();

/// The bits of a value that a fault may touch, ascending bit numbers (0 = least significant). field: `any`
/// (all), `sign`, `exponent`, `mantissa`, `exponent_msb`, a range "LO-HI" (both ends in), or a list "3,7,30".
/// For integers `sign` is the top bit of a signed integer, `mantissa` all other bits, and `exponent` has
/// none. Returns an empty vector if the format has no such bits (a range beyond its width included); throws
/// Error(bad_input) when the text is not a bit field at all.
[[nodiscard]] std::vector<unsigned> bit_field(const NumberFormat& format, std::string_view field);

/// Throws Error(bad_input) unless the text is a bit field; the message lists what is accepted.
void check_bit_field(std::string_view field);

/// `sign`, `exponent` or `mantissa`: the named field that holds a bit of this format.
[[nodiscard]] std::string field_of_bit(const NumberFormat& format, unsigned bit);
/// The sign bit as a mask; 0 for formats without one.
[[nodiscard]] std::uint64_t sign_mask(const NumberFormat& format) noexcept;

/// What is added to an exponent before it is stored. For floating formats.
[[nodiscard]] int exponent_bias(const NumberFormat& format) noexcept;
/// The value of a bit pattern as a double (integers converted, narrower floating formats widened exactly).
[[nodiscard]] double decode_number(const NumberFormat& format, std::uint64_t pattern) noexcept;
/// Whether a pattern is neither NaN nor infinite; always true for integers.
[[nodiscard]] bool is_finite(const NumberFormat& format, std::uint64_t pattern) noexcept;

/// A quiet NaN of a floating format as a bit pattern. Throws Error(unsupported) for formats that have none.
[[nodiscard]] std::uint64_t nan_pattern(const NumberFormat& format);
/// Infinity, positive. Throws Error(unsupported) for integers and for formats that are finite_only.
[[nodiscard]] std::uint64_t infinity_pattern(const NumberFormat& format);
/// The largest finite value.
[[nodiscard]] std::uint64_t max_pattern(const NumberFormat& format) noexcept;

/// Reads / writes a bit pattern from / to format.bytes stored bytes, honouring the byte order. Padding is not
/// part of the pattern, and keeps the bits of `stored`.
[[nodiscard]] std::uint64_t load_pattern(const NumberFormat& format, const std::uint8_t* stored) noexcept;
void store_pattern(const NumberFormat& format, std::uint64_t pattern, std::uint8_t* stored) noexcept;

}  // namespace bitrift
