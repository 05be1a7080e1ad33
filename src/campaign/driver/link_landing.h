// Whether messages were altered that were to be.
#pragma once

#include "campaign/worker/job.h"

namespace bitrift::campaign {

/// Of a run whose faults are links': each fault altered one bit of one message, and nothing else was altered.
/// Of a run without a result this is not known: false.
[[nodiscard]] bool messages_altered(const Ran& ran);

}  // namespace bitrift::campaign
