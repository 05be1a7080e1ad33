// The result of planning: the faults, and the population from which they were drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inject/draw/census.h"
#include "inject/upset/upsets.h"
#include "record/fault/fault.h"
#include "record/fault/fault_list.h"

namespace bitrift::inject {

/// A tensor without regard to its storage.
struct TargetedTensor {
  std::string path;
  std::string dtype;  ///< its number format, without the byte order; for other types their name
  std::vector<std::uint64_t> shape;
  bool operator==(const TargetedTensor&) const = default;
};

/// A planned injection.
struct Plan {
  record::FaultList list;     ///< sorted by (tensor, element); one entry an element
  Census census;              ///< the population, by strata; for the plane metadata only sums
  std::uint64_t redrawn = 0;  ///< samples that were drawn again because allow_nan refused the result
  std::vector<TargetedTensor>
      tensors;  ///< targeted ones; for a replayed list, those with faults; none for metadata
  std::vector<UpsetShare> upsets = {};  ///< of a model of upsets that was drawn, by mode
  [[nodiscard]] std::vector<record::AppliedFault> faults() const { return list.expanded(); }
};

}  // namespace bitrift::inject
