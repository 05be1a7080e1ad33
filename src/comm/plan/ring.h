// The scheme `ring`.
#pragma once

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// One ring through all n live chips, with two sets of n chunks, one for each direction: chunk i of a set is
/// added up along the ring until it reaches the ring's chip i, and the sum returns the same way. Throws
/// Error(unsupported) that says why there is no such ring, and Error(bad_input) for a mesh that is not
/// connected.
[[nodiscard]] Schedule plan_ring(const Topology& topology);

}  // namespace bitrift::comm
