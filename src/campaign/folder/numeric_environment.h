// The variables of the environment on which the bits of a training can depend.
#pragma once

#include <string>

#include "record/json/json.h"

namespace bitrift::campaign {

/// OMP_NUM_THREADS and other variables that choose the number of threads or the kernels of numeric libraries:
/// those that are set, with their values.
[[nodiscard]] record::Json numeric_environment();
/// "OMP_NUM_THREADS was 2, is now unset", one for each variable that differs; "" when none does.
[[nodiscard]] std::string environment_change(const record::Json& before, const record::Json& now);
/// For the end of a message about results that differ: " (OMP_NUM_THREADS was 2 when the campaign began,
/// ...)". began: of campaign.json; null when an earlier version did not record it. "" when nothing changed.
[[nodiscard]] std::string environment_hint(const record::Json& began);

}  // namespace bitrift::campaign
