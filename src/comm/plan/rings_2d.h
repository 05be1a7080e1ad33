// The scheme `rings-2d`.
#pragma once

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// Reduce-scatter along rows, then along columns, then the same ways back, for a mesh without dead chips and
/// links. Where a row or column is a ring, half of the data travels in each direction; where it is a line, a
/// chunk moves from both ends to the chip that it belongs to. Throws Error(unsupported) if a chip or link is
/// dead.
[[nodiscard]] Schedule plan_rings_2d(const Topology& topology);

}  // namespace bitrift::comm
