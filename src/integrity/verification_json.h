// The JSON form of a verification.
#pragma once

#include "integrity/verification.h"
#include "record/json/json.h"

namespace bitrift::integrity {

/// The JSON that `bitrift verify --json` prints (docs/repair.md), without the name of the file.
[[nodiscard]] record::Json to_json(const Verification& found);

}  // namespace bitrift::integrity
