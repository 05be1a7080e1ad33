// The strength of a graph: how many spanning trees can be packed into it, and so how fast an allreduce can
// be.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/graph/graph.h"

namespace bitrift::comm {

/// A fraction in lowest terms.
struct Fraction {
  std::int64_t numerator = 0, denominator = 1;
  [[nodiscard]] double value() const noexcept {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
  bool operator==(const Fraction&) const = default;
};

/// tau = min over partitions P of the vertices of (capacity between parts) / (parts - 1): the most spanning
/// trees, counted by weight, whose loads no edge exceeds (Tutte 1961, Nash-Williams 1961).
struct Strength {
  Fraction tau;
  std::vector<int> part;  ///< for each vertex, 0 to parts - 1: a partition that attains tau
  int parts = 0;
};

/// Exact: integers only. Newton's method over partitions. Each step minimises capacity between parts -
/// lambda (parts - 1) as Barahona ("Packing spanning trees", Math. of OR 20, 1995) does, by one maximum flow
/// for each vertex, which starts from the flow of the vertex before it. tau is 0 for a graph that is not
/// connected. Throws Error(bad_input) for a single vertex, which has no such partition.
[[nodiscard]] Strength strength_of(const Graph& graph);

/// (capacity between parts) / (parts - 1) of a partition: never below the strength. part: for each vertex,
/// any numbers. Throws Error(bad_input) unless there are at least two parts and one number for each vertex.
[[nodiscard]] Fraction partition_ratio(const Graph& graph, const std::vector<int>& part);

}  // namespace bitrift::comm
