// Faults: the model a user asks for, and the single bits that were really changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/number_format.h"
#include "record/json.h"

namespace bitrift::record {

/// Where, what, how many and on which plane; `when` is at load.
struct FaultModel {
  std::vector<std::string>
      tensors;  ///< globs over tensor paths; empty: all numeric tensors with a role other than checksum
  std::vector<std::string> roles;      ///< empty: any
  std::string bits = "any";            ///< bit field (core/number_format.h)
  std::string what = "flip";           ///< flip | zero | nan | inf
  std::string measure = "bit";         ///< bit | element | tensor
  std::optional<std::uint64_t> count;  ///< exactly one of count, fraction and ber is set
  std::optional<double> fraction;      ///< of the targeted elements, 0..1, one fault each
  std::optional<double> ber;           ///< bit error rate: the number of flips is binomial
  std::string plane = "value";         ///< value | storage | metadata (docs/faults.md, "Planes")
  std::uint64_t seed = 0;
  bool allow_nan = true;   ///< false: a sample whose result is NaN or Inf is drawn again, and counted
  bool keep_sign = false;  ///< true: the sign bit is never touched
};

/// One element before and after. Patterns are bit patterns of the value, bit 0 least significant.
struct AppliedFault {
  std::string tensor;  ///< path without leading '/': "model/conv1.weight"; "" on the plane metadata
  std::string role;
  std::uint64_t element = 0;   ///< flat index, row-major; on the plane metadata the byte's place in the file
  std::string dtype;           ///< number format name: "float32"
  std::vector<unsigned> bits;  ///< the bits that were asked for, ascending
  std::string field;           ///< sign | exponent | mantissa | mixed; "" on the plane metadata
  std::uint64_t old_pattern = 0;
  std::uint64_t new_pattern = 0;
  std::string plane = "value";
  bool operator==(const AppliedFault&) const = default;
};

/// Patterns become hexadecimal strings ("0x3f800000"), because JSON numbers end at 2^53.
[[nodiscard]] Json to_json(const AppliedFault& fault);
[[nodiscard]] AppliedFault applied_fault_from_json(const Json& value);
[[nodiscard]] Json to_json(const FaultModel& model);
[[nodiscard]] FaultModel fault_model_from_json(const Json& value);

}  // namespace bitrift::record
