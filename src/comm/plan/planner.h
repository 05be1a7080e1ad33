// All schemes by name.
#pragma once

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// Plans a schedule. Throws Error(unsupported) where the scheme cannot serve the mesh, or is none of ring,
/// rings-2d, forwarding and row-pairs; Error(bad_input) for a mesh that is not connected.
[[nodiscard]] Schedule plan_schedule(const Topology& topology, Scheme scheme);

}  // namespace bitrift::comm
