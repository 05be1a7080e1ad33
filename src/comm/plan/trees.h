// The scheme `trees`.
#pragma once

#include <cstddef>

#include "comm/mesh_schedule.h"
#include "comm/model/workload.h"

namespace bitrift::comm {

/// Spanning trees that share the links evenly (choose_trees), each of which reduces its part of the buffer
/// upwards and copies the sums back. The numbers of trees and chunks depend on the workload. The sends are
/// listed by their due time at the workload's costs. Throws Error(bad_input) for a mesh that is not
/// connected, and Error(unsupported) where even one chunk a tree is beyond the limits of a schedule.
[[nodiscard]] Schedule plan_trees(const Topology& topology, const Workload& work);

/// The number of chunks that all trees together may have, so that their sends are within the limits of a
/// schedule. chips: live ones, at least two.
[[nodiscard]] int most_chunks_of_trees(std::size_t chips);

}  // namespace bitrift::comm
