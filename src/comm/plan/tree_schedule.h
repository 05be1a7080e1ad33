// Spanning trees as a schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/mesh_schedule.h"
#include "comm/model/link_model.h"

namespace bitrift::comm {

/// A spanning tree of the live chips, over live links.
struct RootedTree {
  int root = 0;
  std::vector<int> parent;  ///< for each chip, dead ones included; -1 for the root and for dead chips
};

/// The speed of trees, in any unit of time.
struct TreePace {
  double round = 1;  ///< from one chunk of a tree to its next
  double hop = 1;    ///< from a send to the next one on its way; above 0
};

/// The busiest link is the clock: a round is the time in which it carries one chunk of each of its trees. A
/// hop is 1.5 times the time of one chunk and the latency, because chunks also wait for each other.
[[nodiscard]] TreePace tree_pace(double bytes, const LinkCost& cost, std::size_t trees, int chunks_per_tree,
                                 double busiest);

/// Chunk i * chunks_per_tree + k is the k-th of tree i: it is added up from the leaves to the root, and the
/// sum is copied back. The sends are listed by due time: chunk k ends everywhere at k rounds, and a send is
/// due one hop earlier for each send that follows on its longest way. So a chip that takes the first send
/// that is ready overlaps chunks, trees and both directions. Throws Error(bad_input) that names the tree and
/// chip where a tree is not a spanning tree of the live chips over live links, or if there is no tree or
/// chunk, and Error(unsupported) beyond the limits of a schedule.
[[nodiscard]] Schedule tree_schedule(const Topology& topology, std::span<const RootedTree> trees,
                                     std::uint32_t chunks_per_tree, const TreePace& pace = {});

}  // namespace bitrift::comm
