// What planning gives: the faults, and what they were drawn from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inject/draw/census.h"
#include "record/fault/fault.h"
#include "record/fault/fault_list.h"

namespace bitrift::inject {

/// A tensor as it is whatever its storage.
struct TargetedTensor {
  std::string path;
  std::string dtype;  ///< its number format, without the byte order; of other types their name
  std::vector<std::uint64_t> shape;
  bool operator==(const TargetedTensor&) const = default;
};

/// A planned injection.
struct Plan {
  record::FaultList list;     ///< sorted by (tensor, element); one entry an element
  Census census;              ///< the population drawn from, by strata; of the plane metadata sums only
  std::uint64_t redrawn = 0;  ///< samples whose result allow_nan refused, drawn again
  std::vector<TargetedTensor>
      tensors;  ///< targeted ones, or of a replayed list those with faults; not of metadata
  [[nodiscard]] std::vector<record::AppliedFault> faults() const { return list.expanded(); }
};

}  // namespace bitrift::inject
