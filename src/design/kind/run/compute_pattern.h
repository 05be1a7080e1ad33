// How a fault changes the numbers that it strikes, and mixtures of such patterns (docs/spec.md, "Faults while
// computing").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/fault/compute_fault.h"
#include "record/json/json.h"

namespace bitrift::design {

/// The pattern of one stratum of every site.
struct ComputePattern {
  std::string name;           ///< second part of the stratum's name, and its field
  std::string field = "any";  ///< flip: the bits of which the first one is drawn, as in BitStrata
  /// In a mixture: how often it is drawn in proportion to the others. 0: not in a mixture; every bit of the
  /// field is as likely as any other.
  std::uint64_t weight = 0;
  record::ComputeEffect effect = record::ComputeEffect::flip;
  std::int64_t elements = 1, stride = 1;  ///< see record::ComputeFault
  bool scattered = false;  ///< instead of the stride: the elements after the first one are anywhere
  /// How many different bits flip in each element. With more than 1, only the first bit of the first element
  /// is one of the field.
  std::int64_t bits = 1;
  /// With more than one bit: the others are next to the first one, above it as far as there are any, and the
  /// same in every element.
  bool adjacent = false;
  [[nodiscard]] bool flips() const noexcept { return effect == record::ComputeEffect::flip; }
};

/// Patterns of one campaign.
struct ComputePatterns {
  std::vector<ComputePattern> list;  ///< all have a weight, or none has
  std::string source = {};           ///< where the patterns and weights of a mixture are from; "": not said
  [[nodiscard]] bool weighted() const noexcept { return !list.empty() && list.front().weight > 0; }
  /// The greatest common divisor of the weights.
  [[nodiscard]] std::uint64_t unit() const noexcept;
  /// "a flip of one bit of a number while it is computed, chosen uniformly from the 1,620 sign bits of all
  /// numbers". size: of the population, if it is known.
  [[nodiscard]] std::string one_fault(const std::optional<std::uint64_t>& size) const;
  /// ", and in the 4 elements from there, 8 apart", if the patterns have this in common.
  [[nodiscard]] std::string also_struck() const;
};

/// Mixtures that were published (docs/compute-faults.md, "Mixtures").
enum class FaultLibrary {
  gpu_gates,  ///< a data-center GPU simulated at the level of gates, arXiv 2605.04213
};
constexpr EnumNames<1> names_of(FaultLibrary) { return {"library of faults", {"gpu-gates"}}; }
[[nodiscard]] ComputePatterns patterns_of(FaultLibrary library);

/// Reads 'fields', 'effect', 'bits', 'elements', 'stride', 'library', 'patterns' and 'source' of the value at
/// `pointer` of a document that obeys the schema. Throws Error(bad_input) with file, line and key.
[[nodiscard]] ComputePatterns patterns_from(const record::Document& document, const std::string& pointer);
/// Adds these keys to `value`, with a library as the patterns that it stands for.
void add_patterns(record::Json& value, const ComputePatterns& patterns);

}  // namespace bitrift::design
