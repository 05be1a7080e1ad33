// A fault in the running computation: bits of a number that a step computes flip before it is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/named_enum.h"
#include "record/json/json.h"

namespace bitrift::record {

/// The text under which faults while computing are listed where others have a Plane, which is a part of a
/// file.
inline constexpr const char* compute_plane = "compute";

/// Which numbers of a step a fault strikes (docs/compute-faults.md, "Sites").
enum class ComputeSite {
  activation,       ///< the output of a layer in the forward pass
  gradient,         ///< the gradient of the loss with respect to that output
  weight_gradient,  ///< a parameter's gradient on one replica, before the sum over replicas
  update,           ///< what a step adds to a parameter on one replica
  parameter,        ///< a parameter itself on one replica, before a step; it keeps the flipped bit
};
constexpr EnumNames<5> names_of(ComputeSite) {
  return {"site of a fault", {"activation", "gradient", "weight_gradient", "update", "parameter"}};
}
/// Whether it is a tensor of each micro-batch, named by its layer. The others are named by a parameter, and a
/// step has one for each replica.
[[nodiscard]] constexpr bool of_layers(ComputeSite site) noexcept {
  return site == ComputeSite::activation || site == ComputeSite::gradient;
}

/// Whether replicas differ from such a fault on, because each has its own.
[[nodiscard]] constexpr bool parts_replicas(ComputeSite site) noexcept {
  return site == ComputeSite::update || site == ComputeSite::parameter;
}

/// How a fault changes a number.
enum class ComputeEffect {
  flip,  ///< one of its bits flips
  zero,  ///< it becomes 0
  nan,   ///< a quiet NaN
  inf,   ///< positive infinity
};
constexpr EnumNames<4> names_of(ComputeEffect) {
  return {"effect of a fault", {"flip", "zero", "nan", "inf"}};
}

/// One bit of one number, or of several in the same tensor, in one step or in several; or the whole number.
struct ComputeFault {
  ComputeSite site = ComputeSite::activation;
  std::string tensor = {};   ///< of_layers: a layer's name, "conv1"; else a parameter's key, "conv1.weight"
  std::int64_t step = 1;     ///< of this run, 1-based: the first in which it strikes
  std::int64_t replica = 0;  ///< whose
  std::int64_t micro_batch = 0;  ///< 0 if not of_layers
  std::int64_t element = 0;      ///< row-major in the tensor, which has the rows of one micro-batch
  int bit = 0;  ///< flip: of the number in the tensor's own format, 0 is the least significant; else 0
  ComputeEffect effect = ComputeEffect::flip;
  std::int64_t lasting = 1;   ///< how many times it strikes; 0: to the end of the run; 1 for a parameter
  std::int64_t every = 1;     ///< steps from one time to the next
  std::int64_t elements = 1;  ///< how many it strikes: `element` and those after it
  std::int64_t stride = 1;    ///< from one element to the next; beyond the last one it starts again at 0
  bool operator==(const ComputeFault&) const = default;
  [[nodiscard]] bool strikes(std::int64_t in_step) const noexcept;
  /// How many different elements of a tensor with `count` it can strike before it returns to its first.
  [[nodiscard]] std::int64_t most_elements(std::int64_t count) const noexcept;
  /// nullopt: the last one of the run.
  [[nodiscard]] std::optional<std::int64_t> last_step() const noexcept;
};

/// {"site", "tensor", "step", "replica", "micro_batch", "element", "bit"}, "effect" if it is not a flip, and
/// "lasting" (a number, or "permanent"), "every", "elements" and "stride" if they are not 1.
[[nodiscard]] Json to_json(const ComputeFault& fault);
/// Throws Error(bad_file) for impossible values.
[[nodiscard]] ComputeFault compute_fault_from_json(const Json& value);
/// "SITE:TENSOR@STEP:REPLICA.MICRO_BATCH.ELEMENT.BIT[+LASTING[/EVERY]][*ELEMENTS[/STRIDE]]", such as
/// "activation:conv1@5:0.0.17.30", "update:fc.weight@5:0.0.3.22+permanent*4/8". In the place of BIT stands
/// the name of any other effect. Throws Error(bad_input) that
/// says what was expected.
[[nodiscard]] ComputeFault compute_fault_from_text(std::string_view text);
/// The inverse.
[[nodiscard]] std::string to_text(const ComputeFault& fault);

/// The pattern that a number of this format has after a fault with this effect, if it was `old`. Throws
/// Error(bad_input) for an infinity in a format without one.
[[nodiscard]] std::uint64_t pattern_after(const ComputeFault& fault, const std::string& dtype,
                                          std::uint64_t old);

/// The effect of such a fault, as it was read back. Patterns are those of `element` when it was first struck.
struct AlteredValue {
  ComputeFault fault;
  std::string dtype = {};  ///< of the tensor: "float32"
  std::uint64_t old_pattern = 0, new_pattern = 0;
  std::int64_t times = 0;  ///< steps in which it struck
  bool operator==(const AlteredValue&) const = default;
};

/// {"compute": {...}, "dtype", "old", "new", "times"}; patterns as in an AppliedFault.
void to_json(Json& value, const AlteredValue& altered);
void from_json(const Json& value, AlteredValue& altered);

}  // namespace bitrift::record
