#include "comm/graph/topology_graph.h"

namespace bitrift::comm {

std::vector<int> vertices_of(const Topology& topology) {
  std::vector<int> out(at_index(topology.chips()), -1);
  int next = 0;
  for (const int chip : topology.live()) out[at_index(chip)] = next++;
  return out;
}

Graph graph_of(const Topology& topology) {
  const std::vector<int> vertex = vertices_of(topology);
  std::vector<Edge> edges;
  for (const auto& [from, to] : topology.links())
    if (from < to) edges.push_back({vertex[at_index(from)], vertex[at_index(to)], 1});
  return {static_cast<int>(topology.live().size()), std::move(edges)};
}

}  // namespace bitrift::comm
