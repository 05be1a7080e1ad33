// Which links of a mesh are to fail: the strata of a campaign whose faults are failed links (docs/spec.md,
// "Links that fail").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "record/fault/failed_link.h"
#include "record/fault/process_strata.h"
#include "record/json/json.h"

namespace bitrift::record {

/// Each kind of failure is a stratum.
struct LinkStrata {
  std::vector<LinkFailure> kinds = {LinkFailure::dead, LinkFailure::slow};
  std::optional<StepRange> steps = {};               ///< with which links begin to fail; absent: all of a run
  double delay = 0.001;                              ///< of a slow link, in seconds
  std::optional<std::int64_t> steps_per_epoch = {};  ///< of the arms; known once the campaign has begun
};

/// Reads the value at /strata/link of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] LinkStrata link_strata_from(const Document& document);
[[nodiscard]] Json to_json(const LinkStrata& strata);

}  // namespace bitrift::record
