// An undirected graph with capacities: what bounds and trees are computed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bitrift::comm {

/// The number of a vertex or an edge as the index of a vector.
[[nodiscard]] constexpr std::size_t at_index(int number) noexcept { return static_cast<std::size_t>(number); }

/// Two vertices, joined by `capacity` parallel links.
struct Edge {
  int a = 0, b = 0;
  std::int64_t capacity = 1;
};

/// An edge as seen from one of its ends.
struct Neighbour {
  int vertex = 0, edge = 0;
};

/// Vertices 0 to vertices() - 1 and the edges between them. Immutable.
class Graph {
 public:
  /// Throws Error(bad_input) for no vertex, an end that is not a vertex, an edge from a vertex to itself, a
  /// capacity below 1, and for capacities whose sum, times the vertices, exceeds 2^60.
  Graph(int vertices, std::vector<Edge> edges);

  [[nodiscard]] int vertices() const noexcept { return vertices_; }
  [[nodiscard]] const std::vector<Edge>& edges() const noexcept { return edges_; }
  /// The edges of a vertex, in the order of edges().
  [[nodiscard]] std::span<const Neighbour> neighbours(int vertex) const noexcept;
  /// The number of connected components.
  [[nodiscard]] int components() const;

 private:
  int vertices_;
  std::vector<Edge> edges_;
  std::vector<std::size_t> first_;     // of a vertex in neighbours_; one more at the end
  std::vector<Neighbour> neighbours_;  // vertex by vertex
};

}  // namespace bitrift::comm
