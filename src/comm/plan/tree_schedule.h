// Spanning trees as a schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// A spanning tree of the live chips, over live links.
struct RootedTree {
  int root = 0;
  std::vector<int> parent;  ///< of each chip, dead ones included; -1 for the root and for dead chips
};

/// Chunk i * chunks_per_tree + k is the k-th of tree i: it is added up from the leaves to the root, and the
/// sum is copied back. The sends are listed as they happen if each send takes one unit of time and each tree
/// takes up a chunk every unit, so that a chip that takes the first send that is ready overlaps chunks, trees
/// and both directions. Throws Error(bad_input) that names the tree and chip where a tree is no spanning tree
/// of the live chips over live links, or for no tree or chunk, and Error(unsupported) beyond the limits of a
/// schedule.
[[nodiscard]] Schedule tree_schedule(const Topology& topology, std::span<const RootedTree> trees,
                                     std::uint32_t chunks_per_tree);

}  // namespace bitrift::comm
