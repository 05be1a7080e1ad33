// Spanning trees that share the links of a graph evenly.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/graph/graph.h"
#include "comm/graph/strength.h"

namespace bitrift::comm {

/// A spanning tree with a root.
struct Tree {
  int root = 0;
  int depth = 0;            ///< edges on the longest path from the root
  std::vector<int> parent;  ///< for each vertex; -1 for the root
  std::vector<int> edge;    ///< for each vertex: the edge to its parent; -1 for the root
  std::vector<int> order;   ///< all vertices, each after its parent

  /// For each vertex: edges on the path to the root.
  [[nodiscard]] std::vector<int> depths() const;
  /// For each vertex: edges on the longest path down, 0 for a leaf.
  [[nodiscard]] std::vector<int> heights() const;
};

/// Spanning trees of equal weight. A tree that gets the share 1 / busiest of a link of capacity 1 leaves no
/// edge overloaded, so value() trees of full speed fit: a lower bound of the strength, with the trees as its
/// proof.
struct Packing {
  std::vector<Tree> trees;
  std::vector<std::int64_t> load;  ///< for each edge: the trees that use it
  double busiest = 0;              ///< the largest load / capacity

  [[nodiscard]] double value() const noexcept { return static_cast<double>(trees.size()) / busiest; }
  [[nodiscard]] double mean_depth() const noexcept;
};

struct PackingOptions {
  int trees = 48;
  /// The price of one more edge between a vertex and the root, in trees on an edge. A higher price makes the
  /// trees shallower, and the loads less even or the work longer.
  double depth_price = 0.3;
  /// The largest number of times that every tree is rebuilt. It ends earlier when the loads cannot become
  /// more even.
  int rounds = 30;
};

/// No packing of this many trees has a smaller `busiest`: trees / tau, rounded up to a load that some edge
/// can have.
[[nodiscard]] double fair_load(const Graph& graph, const Fraction& tau, int trees);

/// Packs spanning trees in two phases. Greedily: each tree grows from its root by the edge with the smallest
/// load + price x depth. Then each tree in turn is taken out and grown again around edges that have more than
/// their fair load, ceil(trees / strength), or had it in rounds before (negotiated congestion; McMurchie,
/// Ebeling, "PathFinder", FPGA 1995). The roots are spread over the vertices near the centre. Returns the
/// most even packing seen. Deterministic: no random numbers. Throws Error(bad_input) for a graph that is not
/// connected or has one vertex, fewer than one tree, a negative price or negative rounds.
[[nodiscard]] Packing pack_trees(const Graph& graph, const PackingOptions& options);

}  // namespace bitrift::comm
