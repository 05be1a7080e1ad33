// The rows of the trials that count.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "record/trial.h"

namespace bitrift::analyze {

/// The trials of an arm by stratum, sorted by draw, each up to the first draw without a row (see observe()).
/// They point into `rows`.
[[nodiscard]] std::map<std::string, std::vector<const record::TrialRecord*>> counted_rows(
    const std::vector<record::TrialRecord>& rows, const std::string& arm);

}  // namespace bitrift::analyze
