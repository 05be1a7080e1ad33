// A mesh as a graph.
#pragma once

#include <vector>

#include "comm/graph/graph.h"
#include "comm/topology.h"

namespace bitrift::comm {

/// The live chips and links. Vertex i is the i-th live chip, counted in ascending order. Throws
/// Error(bad_input) if no chip is alive.
[[nodiscard]] Graph graph_of(const Topology& topology);

/// For each chip, dead ones included: its vertex in graph_of(), or -1.
[[nodiscard]] std::vector<int> vertices_of(const Topology& topology);

}  // namespace bitrift::comm
