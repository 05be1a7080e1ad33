// Meshes as graphs, for tests and benchmarks.
#pragma once

#include <string_view>
#include <vector>

#include "comm/graph/graph.h"
#include "comm/graph/topology_graph.h"
#include "comm/topology.h"

namespace bitrift::comm {

/// A mesh of rows of live chips ('#'); everything else is dead. Chips are numbered row by row, without gaps
/// for dead ones. wrap: the last row is joined to the first and the last column to the first, where a
/// dimension has more than one; two chips that are joined twice have one edge of capacity 2.
inline Graph mesh_graph(const std::vector<std::string_view>& rows, bool wrap = false) {
  const int height = static_cast<int>(rows.size()), width = static_cast<int>(rows.front().size());
  std::vector<int> number(rows.size() * rows.front().size(), -1);
  int chips = 0;
  const auto chip = [&](int row, int column) -> int& {
    return number[static_cast<std::size_t>(row * width + column)];
  };
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      if (rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] == '#')
        chip(row, column) = chips++;
  std::vector<Edge> edges;
  const auto join = [&](int a, int b) {
    if (a < 0 || b < 0) return;
    for (Edge& edge : edges)
      if ((edge.a == a && edge.b == b) || (edge.a == b && edge.b == a)) {
        ++edge.capacity;
        return;
      }
    edges.push_back({a, b, 1});
  };
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column) {
      if (column + 1 < width || (wrap && width > 1)) join(chip(row, column), chip(row, (column + 1) % width));
      if (row + 1 < height || (wrap && height > 1)) join(chip(row, column), chip((row + 1) % height, column));
    }
  return Graph(chips, edges);
}

/// A mesh or torus whose `dead_rows` x `dead_columns` chips in the middle are dead.
inline Topology mesh_with_hole(int rows, int columns, int dead_rows, int dead_columns, bool wrap) {
  std::vector<Board> dead;
  if (dead_rows > 0)
    dead.push_back({{(rows - dead_rows) / 2, (columns - dead_columns) / 2}, dead_rows, dead_columns});
  return Topology(rows, columns, wrap ? Wrap::both : Wrap::neither, dead, {});
}
inline Graph mesh_graph(int rows, int columns, int dead_rows, int dead_columns, bool wrap) {
  return graph_of(mesh_with_hole(rows, columns, dead_rows, dead_columns, wrap));
}

}  // namespace bitrift::comm
