// The effect of a fault on one number: the kinds of a fault model as functions of bit patterns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/number/number_format.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// The kind of a model with its parameters, checked.
///
/// flip, burst, xor and the stuck-at kinds strike at a *place* of an element, named by the lowest bit of what
/// they touch: a burst of n touches n bits upward, a mask is shifted there. Only bits that the field targets
/// may be touched, so a place counts when all of them are. The other kinds alter the whole element.
class Alteration {
 public:
  /// Throws Error(bad_input) when the model's parameters are missing, out of range, of another kind, or
  /// contradict its policies.
  explicit Alteration(const record::FaultModel& model);

  /// True for kinds that alter whole elements: zero, nan, inf, max, set, scale, random.
  [[nodiscard]] bool whole() const noexcept;
  /// True when --ber has a meaning: each bit is struck independently.
  [[nodiscard]] bool single_bits() const noexcept;

  /// Where a fault may strike in an element of this format, ascending: places, or for whole elements the bits
  /// that it may alter. Empty: the format has none, and its tensors are left out. Throws Error(bad_input)
  /// when the kind's number does not fit an integer format.
  [[nodiscard]] std::vector<unsigned> places(const NumberFormat& format) const;
  /// The bits that a fault at this place may alter; `place` is ignored for whole elements.
  [[nodiscard]] std::uint64_t touched(const NumberFormat& format, unsigned place) const;
  /// The pattern after the fault. `draw(k)` gives the k-th of 64-bit random numbers, for `random` alone.
  /// nullopt: a policy refuses every result. Throws Error(bad_input) if a scaled integer does not fit.
  template <typename Draw>
  [[nodiscard]] std::optional<std::uint64_t> apply(const NumberFormat& format, std::uint64_t old,
                                                   unsigned place, Draw draw) const {
    if (kind_ != Kind::random) return fixed(format, old, place);
    const std::uint64_t mask = touched(format, place);
    if (!accepts(format, old, place)) return std::nullopt;
    for (std::uint64_t attempt = 0;; ++attempt) {
      const std::uint64_t pattern = (old & ~mask) | (draw(attempt) & mask);
      if (allow_nan_ || is_finite(format, pattern)) return pattern;
    }
  }
  /// Whether the policies allow a result for a fault at this place of this value.
  [[nodiscard]] bool accepts(const NumberFormat& format, std::uint64_t old, unsigned place) const;
  /// Whether accepts() depends on the value at all, for tensors of this format.
  [[nodiscard]] bool looks_at_values(const NumberFormat& format) const noexcept;
  /// Whether accepts() depends on the value only through its exponent (all kinds but scale).
  [[nodiscard]] bool only_exponent_counts(const NumberFormat& format) const noexcept;

 private:
  using Kind = record::FaultKind;

  void read_parameters(const record::FaultModel& model);
  [[nodiscard]] std::uint64_t shape() const noexcept;  // the bits of a fault at place 0
  [[nodiscard]] std::uint64_t constant(const NumberFormat& format) const;
  [[nodiscard]] std::optional<std::uint64_t> fixed(const NumberFormat& format, std::uint64_t old,
                                                   unsigned place) const;
  [[nodiscard]] std::uint64_t altered(const NumberFormat& format, std::uint64_t old, unsigned place) const;
  [[nodiscard]] std::vector<unsigned> field_bits(const NumberFormat& format) const;

  Kind kind_ = Kind::flip;
  std::string field_;
  bool allow_nan_ = true;
  bool keep_sign_ = false;
  unsigned length_ = 1;
  std::uint64_t mask_ = 1;
  bool mask_aligned_ = true;
  double factor_ = 1;
  std::string value_;
};

/// "101", "0b101" or "0x5" as a number. Throws Error(bad_input) for other texts, for 0 and for numbers beyond
/// 64 bits.
[[nodiscard]] std::uint64_t mask_from_text(const std::string& text);

}  // namespace bitrift::inject
