// The scheme `ring`.
#pragma once

#include <cstddef>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// With n chips, a ring has 2n chunks of 2 (n - 1) sends each, at most most_sends.
inline constexpr std::size_t most_ring_chips = 2048;
static_assert(4 * most_ring_chips * (most_ring_chips - 1) <= most_sends &&
              4 * (most_ring_chips + 1) * most_ring_chips > most_sends);

/// One ring through all n live chips, with two sets of n chunks, one for each direction: chunk i of a set is
/// added up along the ring until it reaches the ring's chip i, and the sum returns the same way. Throws
/// Error(unsupported) that says why such a ring does not exist, or for more than most_ring_chips, and
/// Error(bad_input) for a mesh that is not connected.
[[nodiscard]] Schedule plan_ring(const Topology& topology);

}  // namespace bitrift::comm
