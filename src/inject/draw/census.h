// The number of possible faults: the strata of a population, counted exactly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inject/draw/population.h"

namespace bitrift::inject {

/// Role x field. The faults of a stratum are those that touch bits of this field alone.
struct StratumSize {
  std::string role;
  std::string field;  ///< sign, exponent, mantissa, several joined by '+', or the field of whole elements
  std::uint64_t tensors = 0;   ///< that have members
  std::uint64_t elements = 0;  ///< elements with at least one member
  std::uint64_t bits = 0;      ///< members: bits, places of a burst or mask; of whole elements, their bits
  /// "weight.exponent".
  [[nodiscard]] std::string name() const { return role + "." + field; }
  bool operator==(const StratumSize&) const = default;
};

struct Census {
  std::vector<StratumSize> strata;  ///< by role, then sign, exponent, mantissa, then bits of several fields
  std::vector<StratumSize> roles;   ///< all fields of a role together; `field` is ""
  std::uint64_t bits = 0;
  std::uint64_t elements = 0;
};

/// Counts the members of a population that the model's policies accept as single faults. Without allow_nan
/// the values decide, so all are read, in blocks; otherwise none is.
[[nodiscard]] Census count_eligible(const ckpt::Reader& reader, const record::FaultModel& model,
                                    const Population& population);

/// The field names of the bits of a mask, joined with '+' in the order sign, exponent, mantissa.
[[nodiscard]] std::string field_names(const NumberFormat& format, std::uint64_t bits);

}  // namespace bitrift::inject
