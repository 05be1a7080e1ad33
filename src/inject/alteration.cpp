#include "inject/alteration.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/number/encode_number.h"

namespace bitrift::inject {
namespace {

std::uint64_t mask_of(const std::vector<unsigned>& bits) {
  std::uint64_t mask = 0;
  for (const unsigned bit : bits) mask |= std::uint64_t{1} << bit;
  return mask;
}

std::uint64_t low_bits(unsigned count) { return ~std::uint64_t{0} >> (64 - count); }

// A given parameter belongs to one kind, and that kind needs it.
void check_parameter(const record::FaultModel& model, const char* key, record::FaultKind kind, bool given,
                     bool needed) {
  std::string option = fmt::format("--{}", key);
  std::ranges::replace(option, '_', '-');
  if (given && model.what != kind) {
    fail_at(ErrorCode::bad_input, key, "{} is valid with --what {}, not with --what {}", option,
            name_of(kind), name_of(model.what));
  }
  if (needed && !given && model.what == kind) {
    fail_at(ErrorCode::bad_input, key, "--what {} needs {}", name_of(kind), option);
  }
}

// Memory knows words of 8 bytes, and nothing of the numbers in them.
void check_upset(const record::FaultModel& model) {
  const auto refuse = [](const char* key, const char* option, const char* what) {
    fail_at(ErrorCode::bad_input, key, "--what upset strikes words of memory, whatever {}; leave out {}",
            what, option);
  };
  if (model.bits != "any") refuse("bits", "--bits", "their bits mean");
  if (model.element) refuse("element", "--element", "element is in them");
  if (model.keep_sign) refuse("keep_sign", "--keep-sign", "their bits mean");
  if (!model.allow_nan) refuse("allow_nan", "--no-nan", "number results");
  if (model.measure != record::Measure::bit) refuse("measure", "--measure", "the tensors are");
  if (model.fraction) refuse("fraction", "--fraction", "the elements are");
  if (model.plane != record::Plane::value) {
    fail_at(ErrorCode::bad_input, "plane", "--what upset strikes values in memory; leave out --plane {}",
            name_of(model.plane));
  }
}

}  // namespace

std::uint64_t mask_from_text(const std::string& text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const bool prefixed = hexadecimal || text.starts_with("0b") || text.starts_with("0B");
  const char* const begin = text.data() + (prefixed ? 2 : 0);
  const char* const end = text.data() + text.size();
  std::uint64_t mask = 0;
  const auto [rest, error] = std::from_chars(begin, end, mask, hexadecimal ? 16 : 2);
  if (error == std::errc{} && rest == end && mask != 0) return mask;
  fail_at(ErrorCode::bad_input, "mask",
          "'{}' is not a mask: give 1 to 64 bits, at least one of them 1, in binary (101 or 0b101) or "
          "hexadecimal (0x5)",
          text);
}

Alteration::Alteration(const record::FaultModel& model)
    : kind_(model.what), field_(model.bits), allow_nan_(model.allow_nan), keep_sign_(model.keep_sign) {
  read_parameters(model);
  if (whole() && kind_ != Kind::random && model.bits != "any") {
    fail_at(ErrorCode::bad_input, "bits",
            "--bits chooses single bits, but --what {} sets whole elements; leave out --bits",
            name_of(model.what));
  }
  if (kind_ == Kind::upset) check_upset(model);
  if (!allow_nan_ && (kind_ == Kind::nan || kind_ == Kind::infinity)) {
    fail_at(ErrorCode::bad_input, "allow_nan", "--no-nan contradicts --what {}; leave out one of them",
            name_of(model.what));
  }
}

void Alteration::read_parameters(const record::FaultModel& model) {
  check_parameter(model, "length", Kind::burst, model.length.has_value(), true);
  check_parameter(model, "mask", Kind::mask, !model.mask.empty(), true);
  check_parameter(model, "mask_at", Kind::mask, model.mask_at.has_value(), false);
  check_parameter(model, "factor", Kind::scale, model.factor.has_value(), true);
  check_parameter(model, "value", Kind::set, !model.value.empty(), true);
  check_parameter(model, "ecc", Kind::upset, model.ecc.has_value(), true);
  check_parameter(model, "upset_mode", Kind::upset, model.upset_mode.has_value(), false);
  check_parameter(model, "upset_rates", Kind::upset, model.upset_rates.has_value(), false);
  if (model.length) length_ = *model.length;
  if (length_ < 1 || length_ > 64) {
    fail_at(ErrorCode::bad_input, "length", "--length {} is not a number of bits from 1 to 64", length_);
  }
  if (!model.mask.empty()) mask_ = mask_from_text(model.mask);
  mask_aligned_ = model.mask_at != record::MaskPlace::random;
  if (model.factor) factor_ = *model.factor;
  if (!std::isfinite(factor_))
    fail_at(ErrorCode::bad_input, "factor", "--factor {} is not a finite number", factor_);
  if (keep_sign_) factor_ = std::fabs(factor_);
  value_ = model.value;
  if (kind_ != Kind::set) return;
  const NumberFormat widest = number_format("float64").value();
  if (!is_finite(widest, encode_text(widest, value_).value()) && !allow_nan_) {
    fail_at(ErrorCode::bad_input, "allow_nan", "--no-nan contradicts --value {}; leave out one of them",
            value_);
  }
}

bool Alteration::whole() const noexcept { return kind_ >= Kind::zero; }

bool Alteration::single_bits() const noexcept {
  return kind_ == Kind::flip || kind_ == Kind::stuck_at_0 || kind_ == Kind::stuck_at_1;
}

std::uint64_t Alteration::shape() const noexcept {
  if (kind_ == Kind::burst) return low_bits(length_);
  return kind_ == Kind::mask ? mask_ : 1;
}

std::vector<unsigned> Alteration::field_bits(const NumberFormat& format) const {
  std::vector<unsigned> bits = bit_field(format, field_);
  const std::uint64_t sign = sign_mask(format);
  if (keep_sign_) std::erase_if(bits, [&](unsigned bit) { return (sign >> bit & 1) != 0; });
  return bits;
}

std::vector<unsigned> Alteration::places(const NumberFormat& format) const {
  if (kind_ == Kind::nan || kind_ == Kind::infinity) {
    // They exist if there is an exponent; its bits represent the element.
    if (kind_ == Kind::infinity ? format.finite_only : !format.has_nan()) return {};
    return bit_field(format, "exponent");
  }
  // Powers of two have no zero.
  if (kind_ == Kind::zero && format.kind == NumberKind::floating && !format.has_sign()) return {};
  std::vector<unsigned> bits = field_bits(format);
  if (kind_ == Kind::set && !bits.empty()) static_cast<void>(constant(format));
  if (whole() || single_bits()) return bits;
  const std::uint64_t targeted = mask_of(bits);
  std::vector<unsigned> places;
  const auto width = static_cast<unsigned>(std::bit_width(shape()));
  const bool aligned = kind_ == Kind::mask && mask_aligned_;
  for (unsigned place = 0; place + width <= format.bits() && (place == 0 || !aligned); ++place) {
    if ((shape() << place & ~targeted) == 0) places.push_back(place);
  }
  return places;
}

std::uint64_t Alteration::touched(const NumberFormat& format, unsigned place) const {
  if (!whole()) return shape() << place;
  if (kind_ == Kind::random) return mask_of(field_bits(format));
  return keep_sign_ ? format.mask() & ~sign_mask(format) : format.mask();
}

std::uint64_t Alteration::constant(const NumberFormat& format) const {
  switch (kind_) {
    case Kind::nan:
      return nan_pattern(format);
    case Kind::infinity:
      return infinity_pattern(format);
    case Kind::max:
      return max_pattern(format);
    case Kind::set: {
      const auto pattern = encode_text(format, value_);
      if (pattern) return *pattern;
      fail(ErrorCode::bad_input,
           "--value {} cannot be stored as {}; choose other tensors, or a number that fits", value_,
           format.name());
    }
    default:
      return 0;
  }
}

std::uint64_t Alteration::altered(const NumberFormat& format, std::uint64_t old, unsigned place) const {
  const std::uint64_t mask = touched(format, place);
  switch (kind_) {
    case Kind::flip:
    case Kind::upset:
    case Kind::burst:
    case Kind::mask:
      return old ^ mask;
    case Kind::stuck_at_0:
      return old & ~mask;
    case Kind::stuck_at_1:
      return old | mask;
    case Kind::scale: {
      const auto scaled = scale_pattern(format, old, factor_);
      if (scaled) return (old & ~mask) | (*scaled & mask);
      fail(ErrorCode::bad_input, "--factor {} times {:#x} cannot be stored as {}", factor_, old,
           format.name());
    }
    default:
      return (old & ~mask) | (constant(format) & mask);
  }
}

std::optional<std::uint64_t> Alteration::fixed(const NumberFormat& format, std::uint64_t old,
                                               unsigned place) const {
  const std::uint64_t pattern = altered(format, old, place);
  if (!allow_nan_ && !is_finite(format, pattern)) return std::nullopt;
  return pattern;
}

bool Alteration::accepts(const NumberFormat& format, std::uint64_t old, unsigned place) const {
  if (!looks_at_values(format)) return true;
  // `random` has a finite result when the one with all of its bits at 0 is finite.
  if (kind_ == Kind::random) return is_finite(format, old & ~touched(format, place));
  return fixed(format, old, place).has_value();
}

bool Alteration::looks_at_values(const NumberFormat& format) const noexcept {
  return !allow_nan_ && format.kind == NumberKind::floating;
}

bool Alteration::only_exponent_counts(const NumberFormat& format) const noexcept {
  return kind_ != Kind::scale && !format.finite_only;
}

}  // namespace bitrift::inject
