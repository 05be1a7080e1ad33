#include "comm/plan/trees.h"

#include <algorithm>
#include <vector>

#include "comm/graph/topology_graph.h"
#include "comm/model/tree_plan.h"
#include "comm/plan/tree_schedule.h"

namespace bitrift::comm {
namespace {

std::vector<RootedTree> on_chips(const Topology& topology, const std::vector<Tree>& trees) {
  const std::vector<int>& live = topology.live();
  std::vector<RootedTree> out;
  for (const Tree& tree : trees) {
    RootedTree one{live[at_index(tree.root)], std::vector<int>(at_index(topology.chips()), -1)};
    for (std::size_t i = 0; i < live.size(); ++i)
      if (tree.parent[i] >= 0) one.parent[at_index(live[i])] = live[at_index(tree.parent[i])];
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

int most_chunks_of_trees(std::size_t chips) {
  return static_cast<int>(std::min<std::size_t>(most_pieces, most_sends / (2 * (chips - 1))));
}

Schedule plan_trees(const Topology& topology, const Workload& work) {
  topology.require_connected();
  if (topology.live().size() == 1) return {topology, Scheme::trees, 1};
  const TreePlan plan =
      choose_trees(graph_of(topology), work.bytes, work.cost, most_chunks_of_trees(topology.live().size()));
  return tree_schedule(
      topology, on_chips(topology, plan.packing.trees), static_cast<std::uint32_t>(plan.chunks),
      tree_pace(work.bytes, work.cost, plan.packing.trees.size(), plan.chunks, plan.packing.busiest));
}

}  // namespace bitrift::comm
