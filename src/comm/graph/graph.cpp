#include "comm/graph/graph.h"

#include <utility>

#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr std::int64_t kMostCapacity = std::int64_t{1} << 60;

}  // namespace

Graph::Graph(int vertices, std::vector<Edge> edges) : vertices_(vertices), edges_(std::move(edges)) {
  if (vertices < 1) fail(ErrorCode::bad_input, "a graph of {} vertices: it needs at least one", vertices);
  const std::int64_t most = kMostCapacity / vertices;
  std::int64_t sum = 0;
  first_.assign(static_cast<std::size_t>(vertices) + 1, 0);
  for (const Edge& edge : edges_) {
    if (edge.a < 0 || edge.b < 0 || edge.a >= vertices || edge.b >= vertices || edge.a == edge.b)
      fail(ErrorCode::bad_input, "edge {}-{}: its ends must be two of the vertices 0 to {}", edge.a, edge.b,
           vertices - 1);
    if (edge.capacity < 1 || edge.capacity > most - sum)
      fail(ErrorCode::bad_input, "edge {}-{}: its capacity, {}, must be at least 1 and the sum at most {}",
           edge.a, edge.b, edge.capacity, most);
    sum += edge.capacity;
    ++first_[static_cast<std::size_t>(edge.a) + 1];
    ++first_[static_cast<std::size_t>(edge.b) + 1];
  }
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  neighbours_.resize(2 * edges_.size());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const Edge& edge = edges_[i];
    neighbours_[next[static_cast<std::size_t>(edge.a)]++] = {edge.b, static_cast<int>(i)};
    neighbours_[next[static_cast<std::size_t>(edge.b)]++] = {edge.a, static_cast<int>(i)};
  }
}

std::span<const Neighbour> Graph::neighbours(int vertex) const noexcept {
  const auto at = static_cast<std::size_t>(vertex);
  return std::span(neighbours_).subspan(first_[at], first_[at + 1] - first_[at]);
}

int Graph::components() const {
  std::vector<bool> seen(static_cast<std::size_t>(vertices_));
  std::vector<int> open;
  int count = 0;
  for (int start = 0; start < vertices_; ++start) {
    if (seen[static_cast<std::size_t>(start)]) continue;
    ++count;
    seen[static_cast<std::size_t>(start)] = true;
    open.push_back(start);
    while (!open.empty()) {
      const int vertex = open.back();
      open.pop_back();
      for (const Neighbour& next : neighbours(vertex)) {
        if (seen[static_cast<std::size_t>(next.vertex)]) continue;
        seen[static_cast<std::size_t>(next.vertex)] = true;
        open.push_back(next.vertex);
      }
    }
  }
  return count;
}

}  // namespace bitrift::comm
