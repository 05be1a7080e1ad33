// Whether the faults of a run that meets them on the way landed.
#pragma once

#include "design/kind/run_end.h"
#include "record/fault/faults.h"

namespace bitrift::design {

/// By the rule of each kind. Altered bits, which are in the file and not met on the way, did not.
[[nodiscard]] bool landed(const record::Faults& faults, const RunEnd& end);

}  // namespace bitrift::design
