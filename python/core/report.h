// What a report shows of a campaign, from one reading of its folder.
#pragma once

#include <filesystem>

#include "record/json/json.h"

namespace bitrift::python {

/// {"runs", "times", "merged", "refused", "problems", "checks", "by_arm", "summary", "comparisons",
/// "propagation", "process", "strangest"}. Where verdicts cannot be given, "refused" says why (text) or
/// "problems" holds a line for each control or canary that misbehaves, and what rests on verdicts is null.
/// Throws Error(not_found | bad_file).
[[nodiscard]] record::Json report(const std::filesystem::path& folder);

}  // namespace bitrift::python
