#include "comm/graph/strength.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "core/error.h"

namespace bitrift::comm {
namespace {

// Sets of vertices that have been united.
class UnionFind {
 public:
  explicit UnionFind(int size) : parent_(at_index(size)) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int vertex) {
    while (parent_[at_index(vertex)] != vertex) {
      parent_[at_index(vertex)] = parent_[at_index(parent_[at_index(vertex)])];
      vertex = parent_[at_index(vertex)];
    }
    return vertex;
  }
  void unite(int a, int b) { parent_[at_index(find(b))] = find(a); }

 private:
  std::vector<int> parent_;
};

// Minimises cap(P) - lambda (|P| - 1) over partitions P, where cap(P) is the capacity between parts.
// Everything is multiplied by the denominator of lambda, so all numbers are integers.
//
// With e(S) = the capacity of the edges inside S, that is e(V) + lambda - max sum over the parts of (e(S) +
// lambda), and the maximum equals min p(V) over all p with p(S) >= e(S) + lambda for every nonempty S (the
// Dilworth truncation of an intersecting supermodular function). The greedy algorithm finds p vertex by
// vertex: p(v) = lambda + the largest e(S) - p(S \ v) over the sets S of v and vertices before it. This is
// what must stay at v when the capacity of each edge is shared out to its two ends, such that no vertex
// before v gets more than its p, and is thus what a maximum flow from v leaves there.
class Truncation {
 public:
  Truncation(const Graph& graph, Fraction lambda)
      : graph_(graph),
        lambda_(lambda),
        price_(at_index(graph.vertices())),
        share_(at_index(graph.vertices())),
        done_(at_index(graph.vertices())),
        via_(at_index(graph.vertices())),
        at_a_(graph.edges().size()),
        at_b_(graph.edges().size()),
        parts_(graph.vertices()) {
    for (int vertex = 0; vertex < graph.vertices(); ++vertex) add(vertex);
  }

  // The minimum times the denominator of lambda: 0 or less, since the partition of one part has 0.
  [[nodiscard]] std::int64_t minimum() const {
    std::int64_t sum = lambda_.numerator;
    for (const Edge& edge : graph_.edges()) sum += edge.capacity * lambda_.denominator;
    for (const std::int64_t price : price_) sum -= price;
    return sum;
  }

  // A partition that attains it.
  [[nodiscard]] std::vector<int> partition() {
    std::vector<int> part(at_index(graph_.vertices()));
    for (int vertex = 0; vertex < graph_.vertices(); ++vertex) part[at_index(vertex)] = parts_.find(vertex);
    return part;
  }

 private:
  // The share of an edge that goes to one of its ends.
  std::int64_t& given(int edge, int vertex) {
    return graph_.edges()[at_index(edge)].a == vertex ? at_a_[at_index(edge)] : at_b_[at_index(edge)];
  }

  void add(int vertex) {
    done_[at_index(vertex)] = true;
    for (const Neighbour& next : graph_.neighbours(vertex)) {
      if (!done_[at_index(next.vertex)]) continue;
      given(next.edge, vertex) = graph_.edges()[at_index(next.edge)].capacity * lambda_.denominator;
      share_[at_index(vertex)] += given(next.edge, vertex);
    }
    price_[at_index(vertex)] = share_[at_index(vertex)];  // the flow cannot end where it starts
    // It ends: each push moves 1 or more of the share. It also ends soon, however large the capacities:
    // search() finds a shortest path, so pushes are at most in the order of vertices x edges (Edmonds, Karp,
    // JACM 19, 1972).
    while (const std::optional<int> end = search(vertex)) push(vertex, *end);
    for (const int other : reached_) parts_.unite(vertex, other);
    price_[at_index(vertex)] = share_[at_index(vertex)] + lambda_.numerator;
  }

  // The nearest vertex with room to which some of the share of `start` can move; without one, reached_ is the
  // set of all vertices that were tried, the set S that decides the price of `start`.
  std::optional<int> search(int start) {
    for (const int vertex : reached_) via_[at_index(vertex)] = {};
    reached_.assign(1, start);
    via_[at_index(start)] = {start, -1};
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const int vertex = reached_[i];
      for (const Neighbour& next : graph_.neighbours(vertex)) {
        if (via_[at_index(next.vertex)].edge != kUnseen || next.vertex == start ||
            !done_[at_index(next.vertex)])
          continue;
        if (given(next.edge, vertex) == 0) continue;
        via_[at_index(next.vertex)] = {vertex, next.edge};
        reached_.push_back(next.vertex);
        if (price_[at_index(next.vertex)] > share_[at_index(next.vertex)]) return next.vertex;
      }
    }
    return std::nullopt;
  }

  // Moves as much as fits along the path that search() found.
  void push(int start, int end) {
    std::int64_t amount = price_[at_index(end)] - share_[at_index(end)];
    for (int vertex = end; vertex != start; vertex = via_[at_index(vertex)].vertex)
      amount = std::min(amount, given(via_[at_index(vertex)].edge, via_[at_index(vertex)].vertex));
    for (int vertex = end; vertex != start; vertex = via_[at_index(vertex)].vertex) {
      given(via_[at_index(vertex)].edge, via_[at_index(vertex)].vertex) -= amount;
      given(via_[at_index(vertex)].edge, vertex) += amount;
    }
    share_[at_index(start)] -= amount;
    share_[at_index(end)] += amount;
  }

  static constexpr int kUnseen = -2;
  struct Step {
    int vertex = 0, edge = kUnseen;  // the previous vertex, and the edge from it
  };

  const Graph& graph_;
  Fraction lambda_;
  std::vector<std::int64_t> price_;  // p
  std::vector<std::int64_t> share_;  // the sum of what the edges give to each vertex; at most its price
  std::vector<bool> done_;
  std::vector<Step> via_;
  std::vector<int> reached_;
  std::vector<std::int64_t> at_a_, at_b_;  // what each edge gives to its ends
  UnionFind parts_;
};

// The numbers of a partition as 0, 1, ... in the order in which they appear; returns how many there are.
int renumber(std::vector<int>& part) {
  std::map<int, int> numbers;
  for (int& one : part) one = numbers.emplace(one, static_cast<int>(numbers.size())).first->second;
  return static_cast<int>(numbers.size());
}

}  // namespace

Fraction partition_ratio(const Graph& graph, const std::vector<int>& part) {
  if (part.size() != at_index(graph.vertices()))
    fail(ErrorCode::bad_input, "a partition of {} vertices for a graph of {}", part.size(), graph.vertices());
  std::vector<int> numbered = part;
  const int parts = renumber(numbered);
  if (parts < 2)
    fail(ErrorCode::bad_input, "a partition into one part has no edges between parts: it needs two");
  std::int64_t between = 0;
  for (const Edge& edge : graph.edges())
    if (part[at_index(edge.a)] != part[at_index(edge.b)]) between += edge.capacity;
  const std::int64_t common = std::gcd(between, static_cast<std::int64_t>(parts - 1));
  return {between / common, (parts - 1) / common};
}

Strength strength_of(const Graph& graph) {
  if (graph.vertices() < 2) fail(ErrorCode::bad_input, "one vertex has no bound: nothing needs to be sent");
  Strength found;
  found.part.resize(at_index(graph.vertices()));
  std::iota(found.part.begin(), found.part.end(), 0);
  found.tau = partition_ratio(graph, found.part);
  // lambda decreases strictly, and so does the number of parts: at most one step for each vertex.
  for (;;) {
    Truncation step(graph, found.tau);
    if (step.minimum() == 0) break;
    found.part = step.partition();
    const Fraction smaller = partition_ratio(graph, found.part);
    // The products fit: a numerator is at most 2^60 / vertices.
    if (smaller.numerator * found.tau.denominator >= found.tau.numerator * smaller.denominator)
      fail(ErrorCode::internal, "a partition below lambda has no smaller ratio");
    found.tau = smaller;
  }
  found.parts = renumber(found.part);
  return found;
}

}  // namespace bitrift::comm
