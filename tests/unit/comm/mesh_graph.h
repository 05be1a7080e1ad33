// Meshes as graphs, for tests and benchmarks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/graph/graph.h"

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

/// A mesh whose `dead_rows` x `dead_columns` chips in the middle are dead.
inline Graph mesh_graph(int rows, int columns, int dead_rows, int dead_columns, bool wrap) {
  std::vector<std::string> text(static_cast<std::size_t>(rows),
                                std::string(static_cast<std::size_t>(columns), '#'));
  const int top = (rows - dead_rows) / 2, left = (columns - dead_columns) / 2;
  for (int row = top; row < top + dead_rows; ++row)
    for (int column = left; column < left + dead_columns; ++column)
      text[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = '.';
  return mesh_graph({text.begin(), text.end()}, wrap);
}

}  // namespace bitrift::comm
