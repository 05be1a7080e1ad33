// Whether the faults that a run meets while it runs have landed.
#pragma once

#include "design/kind/run/run_end.h"
#include "record/fault/faults.h"

namespace bitrift::design {

/// By the rule of each kind. Altered bits are in the file and not met during a run, so they did not.
[[nodiscard]] bool landed(const record::Faults& faults, const RunEnd& end);

}  // namespace bitrift::design
