// Numbers into bit patterns: rounding, scaling, range checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/number/number_format.h"

namespace bitrift {

/// The pattern of a floating format that is nearest to `value`, ties to even (IEEE 754-2019, section 4.3.1).
/// Beyond the largest finite value by half a unit or more: infinity; in formats that have none (finite_only),
/// NaN; in formats without NaN, that value. A NaN becomes nan_pattern with its sign, and throws
/// Error(unsupported) if there is none. Powers of two (float8_e8m0): NaN also for zero and below; values
/// below the smallest one become the smallest one. `format` must be floating.
[[nodiscard]] std::uint64_t encode_floating(const NumberFormat& format, double value);

/// The pattern of a value times a factor. Floating: the exact product, rounded once as by encode_floating; a
/// NaN stays as it is, and zero times infinity is NaN. Integers: the exact product, or nullopt if it is not
/// an integer or does not fit. Powers of two: nullopt for zero and below. `factor` must be finite.
[[nodiscard]] std::optional<std::uint64_t> scale_pattern(const NumberFormat& format, std::uint64_t pattern,
                                                         double factor);

/// The pattern of a number in decimal ("-3", "2.5e-4", "nan", "-inf"). Floating: the text as a double, then
/// encode_floating. Integers: nullopt if the text is not a whole number in decimal digits or does not fit.
/// Powers of two: nullopt for zero and below. Throws Error(bad_input) when the text is not a number.
[[nodiscard]] std::optional<std::uint64_t> encode_text(const NumberFormat& format, std::string_view text);

}  // namespace bitrift
