// How chips that take no part in a reduction hand their gradients to chips that do.
#pragma once

#include <utility>
#include <vector>

#include "comm/plan/reduction.h"
#include "comm/topology.h"

namespace bitrift::comm {

/// The shortest ways from all other live chips to chips that are `home`, as pairs of a chip and the next one
/// on its way, farthest chips first. The mesh must be connected and have a home.
[[nodiscard]] std::vector<std::pair<int, int>> ways_home(const Topology& topology,
                                                         const std::vector<bool>& home);

/// Moves the parts of a chunk along these ways.
void hand_over(Reduction& reduction, const std::vector<std::pair<int, int>>& ways, std::uint32_t chunk);

/// A shortest path over live links, both ends included. The mesh must be connected.
[[nodiscard]] std::vector<int> shortest_path(const Topology& topology, int from, int to);

}  // namespace bitrift::comm
