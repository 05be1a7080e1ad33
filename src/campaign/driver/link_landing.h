// Whether links did to messages what they were to do.
#pragma once

#include "campaign/worker/job.h"

namespace bitrift::campaign {

/// Of a run whose faults are links': each fault altered one bit of one message, and nothing else was altered.
/// Of a run without a result this is not known: false.
[[nodiscard]] bool messages_altered(const Ran& ran);
/// Of a run in which links fail: it met each of them, and no other. Of a run without a result: false.
[[nodiscard]] bool links_failed(const Ran& ran);

}  // namespace bitrift::campaign
