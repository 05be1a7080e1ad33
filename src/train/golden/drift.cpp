#include "train/golden/drift.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace bitrift::ckpt {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The larger of two absolute values; NaN if one of them is.
struct Largest {
  double value = 0;
  bool nan = false;
  void see(double x) {
    nan = nan || std::isnan(x);
    value = std::max(value, x);
  }
  [[nodiscard]] double result() const { return nan ? not_a_number : value; }
};

// 2-norm by two passes: numbers are first brought near 1 by a power of two, so that squares stay in range.
struct Norm {
  double factor = 1, inverse = 1, sum = 0;
  double largest = 0;
  explicit Norm(double largest_) : largest(largest_) {
    if (!std::isfinite(largest) || largest == 0) return;
    const int exponent = std::clamp(std::ilogb(largest), -1000, 1000);
    factor = std::ldexp(1.0, -exponent);
    inverse = std::ldexp(1.0, exponent);
  }
  void add(double x) { sum += (x * factor) * (x * factor); }
  [[nodiscard]] double result() const { return std::isfinite(largest) ? std::sqrt(sum) * inverse : largest; }
};

// value(bytes, i): element i as a double; pattern(bytes, i): its bits.
template <typename Value, typename Pattern>
Drift measure(const void* reference, const void* other, std::uint64_t elements, const Value& value,
              const Pattern& pattern) {
  Drift result;
  Largest largest_reference, largest_difference, largest_ratio;
  double ratios = 0;
  std::uint64_t counted = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    const double a1 = value(reference, i);
    const double a2 = value(other, i);
    const bool same = pattern(reference, i) == pattern(other, i);
    const double difference = same ? 0 : std::abs(a2 - a1);
    result.altered += same ? 0 : 1;
    result.nonfinite += std::isfinite(a2) ? 0 : 1;
    largest_reference.see(std::abs(a1));
    largest_difference.see(difference);
    if (a1 == 0) continue;
    const double ratio = difference == 0 ? 0 : difference / std::abs(a1);
    largest_ratio.see(ratio);
    ratios += ratio;
    ++counted;
  }
  Norm of_reference(largest_reference.result());
  Norm of_difference(largest_difference.result());
  for (std::uint64_t i = 0; i < elements; ++i) {
    const double a1 = value(reference, i);
    of_reference.add(a1);
    if (pattern(reference, i) != pattern(other, i)) of_difference.add(value(other, i) - a1);
  }
  const double difference = of_difference.result();
  result.norm = difference == 0 ? 0 : difference / of_reference.result();
  result.max = counted > 0 ? largest_ratio.result() : result.norm;
  result.mean = counted > 0 ? ratios / static_cast<double>(counted) : result.norm;
  return result;
}

template <typename Number, typename Bits>
Drift measure_as(const void* reference, const void* other, std::uint64_t elements) {
  const auto bits = [](const void* bytes, std::uint64_t i) {
    Bits pattern;
    std::memcpy(&pattern, static_cast<const char*>(bytes) + i * sizeof(Bits), sizeof(Bits));
    return pattern;
  };
  const auto value = [&](const void* bytes, std::uint64_t i) {
    return static_cast<double>(std::bit_cast<Number>(bits(bytes, i)));
  };
  return measure(reference, other, elements, value, bits);
}

}  // namespace

Drift drift(const NumberFormat& format, const void* reference, const void* other, std::uint64_t elements) {
  if (format.order == ByteOrder::little && format.name() == "float32")
    return measure_as<float, std::uint32_t>(reference, other, elements);
  if (format.order == ByteOrder::little && format.name() == "float64")
    return measure_as<double, std::uint64_t>(reference, other, elements);
  const auto bits = [&](const void* bytes, std::uint64_t i) {
    return load_pattern(format, static_cast<const std::uint8_t*>(bytes) + i * format.bytes);
  };
  const auto value = [&](const void* bytes, std::uint64_t i) {
    return decode_number(format, bits(bytes, i));
  };
  return measure(reference, other, elements, value, bits);
}

}  // namespace bitrift::ckpt
