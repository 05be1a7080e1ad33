// Whether ranks failed that were to.
#pragma once

#include "campaign/worker/job.h"

namespace bitrift::campaign {

/// Of a run whose faults are processes. One that continued must have recovered from the failure of every rank
/// that was to fail. One that could not must name one of them: the others may have had no time to. Of a run
/// without a result the way in which its worker was lost must be that of the fault.
[[nodiscard]] bool processes_failed(const Ran& ran);

}  // namespace bitrift::campaign
