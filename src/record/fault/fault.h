// Faults: the model that a user asks for, and the single bits that were really changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/named_enum.h"
#include "core/number/number_format.h"
#include "record/fault/scope.h"
#include "record/json/keys.h"

namespace bitrift::record {

/// Where a fault strikes (docs/faults.md, "Planes").
enum class Plane { value, storage, metadata };
constexpr EnumNames<3> names_of(Plane) { return {"plane", {"value", "storage", "metadata"}}; }

/// The effect of a fault on a number (docs/faults.md, "What").
enum class FaultKind {
  flip,
  burst,
  mask,  ///< "xor", a reserved word of C++
  stuck_at_0,
  stuck_at_1,
  upset,  ///< of memory: the bits that an upset of a DRAM chip leaves wrong after its code
  zero,
  nan,
  infinity,
  max,
  set,
  scale,
  random,
};
constexpr EnumNames<13> names_of(FaultKind) {
  return {"kind of fault",
          {"flip", "burst", "xor", "stuck-at-0", "stuck-at-1", "upset", "zero", "nan", "inf", "max", "set",
           "scale", "random"}};
}
/// The kind with this name, or with the other name of zero, "nullify".
[[nodiscard]] std::optional<FaultKind> find_fault_kind(std::string_view name) noexcept;

/// The unit that is equally likely to be hit.
enum class Measure { bit, element, tensor };
constexpr EnumNames<3> names_of(Measure) { return {"measure", {"bit", "element", "tensor"}}; }

/// Where the mask of an xor may be placed.
enum class MaskPlace { aligned, random };
constexpr EnumNames<2> names_of(MaskPlace) { return {"place of a mask", {"aligned", "random"}}; }

/// The code that protects a memory (docs/faults.md, "Memory upsets").
enum class Ecc { none, secded, chipkill };
constexpr EnumNames<3> names_of(Ecc) { return {"error-correcting code", {"none", "secded", "chipkill"}}; }

/// The part of a DRAM chip that an upset strikes.
enum class UpsetMode { bit, word, column, row, bank, chip };
constexpr EnumNames<6> names_of(UpsetMode) {
  return {"mode of an upset", {"bit", "word", "column", "row", "bank", "chip"}};
}

/// The field rates by which the modes of upsets are weighted.
enum class UpsetRates { transient, permanent };
constexpr EnumNames<2> names_of(UpsetRates) { return {"rates of upsets", {"transient", "permanent"}}; }

/// Where, what, how many and on which plane; the time `when` is always at load.
struct FaultModel {
  std::vector<std::string>
      tensors;  ///< globs over tensor paths; empty: all numeric tensors with a role other than checksum
  std::vector<std::string> exclude;  ///< globs over paths of tensors that are not targets
  std::vector<std::string> roles;    ///< empty: any
  std::vector<std::string> layers;   ///< first | middle | last, numbers or names of layers; empty: any
  std::optional<std::uint64_t>
      element;               ///< of the one chosen tensor, row-major: no other is hit; absent: any
  std::string bits = "any";  ///< bit field (core/number_format.h)
  FaultKind what = FaultKind::flip;
  Measure measure = Measure::bit;
  std::optional<std::uint64_t> count;  ///< exactly one of count, fraction and ber is set
  std::optional<double> fraction;      ///< of the targeted elements, 0..1, one fault each
  std::optional<double> ber;           ///< bit error rate: the number of flips is binomial
  Plane plane = Plane::value;
  std::uint64_t seed = 0;
  bool allow_nan = true;           ///< false: a sample whose result is NaN or Inf is drawn again, and counted
  bool keep_sign = false;          ///< true: the sign bit is never touched
  std::optional<unsigned> length;  ///< of a burst: adjacent bits, 1..64
  std::string mask;                ///< xor: "101", "0b101" or "0x5"; "" otherwise
  std::optional<MaskPlace> mask_at;       ///< xor; absent: aligned, to bit 0
  std::optional<double> factor;           ///< scale
  std::optional<Ecc> ecc;                 ///< upset
  std::optional<UpsetMode> upset_mode;    ///< upset: no other mode; absent: all
  std::optional<UpsetRates> upset_rates;  ///< upset; absent: transient
  std::string value;                      ///< set: the number as text, which keeps 64-bit integers exact
  std::map<std::string, std::string>
      as;       ///< glob over tensor paths -> name of the number format to read it as
  Scope scope;  ///< which replicas see it; in a file only tensors of single replicas can distinguish them
};

/// One element before and after. Patterns are bit patterns of the value, bit 0 least significant.
struct AppliedFault {
  std::string tensor;  ///< path without leading '/': "model/conv1.weight"; "" on the plane metadata
  std::string role;
  std::uint64_t element =
      0;              ///< flat index, row-major; where names_byte() holds, the byte's place in the file
  std::string dtype;  ///< number format name: "float32"
  std::vector<unsigned> bits;  ///< the requested bits, ascending
  std::string field;           ///< sign | exponent | mantissa | mixed; "" where names_byte() holds
  std::uint64_t old_pattern = 0;
  std::uint64_t new_pattern = 0;
  Plane plane = Plane::value;
  std::string structure =
      {};  ///< planes storage and metadata: the part of the file that holds the byte, such as "object header
           ///< of /model/conv1.weight" or "raw chunk 3 of /model/fc.weight"
  bool operator==(const AppliedFault&) const = default;
};

/// Whether a fault on this plane and in this structure alters a byte of the file and not a number: everything
/// on the plane metadata, and on the plane storage the bytes of a chunk with filters ("raw chunk K of PATH").
[[nodiscard]] bool names_byte(Plane plane, std::string_view structure) noexcept;

/// A hexadecimal string as long as the number format ("0x3f800000"), because JSON numbers end at 2^53.
[[nodiscard]] Json pattern_to_json(std::uint64_t pattern, const std::string& dtype);
/// Throws Error(bad_file) for anything else; takes a number, too.
[[nodiscard]] std::uint64_t pattern_from_json(const Json& value);
/// Patterns become strings.
[[nodiscard]] Json to_json(const AppliedFault& fault);
[[nodiscard]] AppliedFault applied_fault_from_json(const Json& value);
/// Keys that are unset are left out.
[[nodiscard]] Json to_json(const FaultModel& model);
/// Takes `nullify` for zero, and a number for `value`.
[[nodiscard]] FaultModel fault_model_from_json(const Json& value);

}  // namespace bitrift::record
