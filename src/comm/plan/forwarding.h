// The scheme `forwarding`.
#pragma once

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// After US patent 11,715,010: groups of chips along a dimension that have a failed chip forward their
/// gradients to whole groups; the whole groups reduce; results return. docs/mesh.md says which parts are our
/// interpretation. Throws Error(unsupported) where no row or no column is whole.
[[nodiscard]] Schedule plan_forwarding(const Topology& topology);

}  // namespace bitrift::comm
