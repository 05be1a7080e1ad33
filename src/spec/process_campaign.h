// What a campaign may ask for in which ranks or links fail, and how its arms recover (docs/spec.md, "Ranks
// that fail", "Links that fail").
#pragma once

#include <optional>
#include <vector>

#include "record/fault/process_strata.h"
#include "record/json/json.h"
#include "record/recovery.h"
#include "spec/parallel.h"

namespace bitrift::record {

/// Of a spec as a user writes it. Throws Error(bad_input) when it says what a campaign finds out itself.
void refuse_points(const Document& document);

/// The recovery of each arm. strata, arms: what the document, which obeys the schema, says under
/// /strata/process and /arms/K/parallel. Throws Error(bad_input) with file, line and key when arms,
/// recoveries and strata do not fit; also when a campaign without failing ranks
/// or links names a recovery.
[[nodiscard]] std::vector<RecoverySpec> recoveries_from(const Document& document,
                                                        const std::optional<ProcessStrata>& strata,
                                                        const std::vector<Parallel>& arms);

}  // namespace bitrift::record
