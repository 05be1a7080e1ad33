// The scheme `row-pairs`.
#pragma once

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// After "Highly Available Data Parallel ML training on Mesh Networks" (arXiv 2011.03605), as far as its
/// abstract goes; docs/mesh.md says which parts are our interpretation. Two rows form a ring. A pair of rows
/// with a dead chip or link divides into shorter rings, which reduce first and hand their shares to whole
/// pairs. The whole pairs reduce, then the columns across them, and the results return. Throws
/// Error(unsupported) where no pair of rows is whole.
[[nodiscard]] Schedule plan_row_pairs(const Topology& topology);

}  // namespace bitrift::comm
