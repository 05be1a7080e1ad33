// What a report shows of a campaign, from one reading of its folder.
#pragma once

#include <filesystem>

#include "record/json/json.h"

namespace bitrift::python {

/// {"runs", "times", "merged", "decided", "population", "bit_fields", "refused", "problems", "checks",
/// "by_arm", "summary", "counted", "comparisons", "propagation", "process", "strangest"}. "checks" holds
/// every canary, also those that have not run. Where verdicts cannot be given, "refused" says why (text), or
/// "problems" holds a line for each canary that misbehaves or for clean runs that are called SDC too often,
/// or both are empty because canaries have not run yet; what rests on verdicts is then null. Throws
/// Error(not_found | bad_file).
[[nodiscard]] record::Json report(const std::filesystem::path& folder);

}  // namespace bitrift::python
