#include "comm/graph/tree_packing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace bitrift::comm {
namespace {

// Prices relative to that of depth, 0.3 by default. Tried on 16x32 and 32x32, with and without dead boards:
// these reach the fair load nearly everywhere, with trees at most a few edges deeper than they need to be.
constexpr double kExcessPrice = 4;  // for a tree beyond the fair load; it grows by one each round
constexpr double kLoadPrice = 2;    // for an edge with its fair load; less, in proportion, for one with less

// The longest shortest path from a vertex.
int eccentricity(const Graph& graph, int start) {
  std::vector<int> distance(at_index(graph.vertices()), -1), open{start};
  distance[at_index(start)] = 0;
  for (std::size_t i = 0; i < open.size(); ++i)
    for (const Neighbour& next : graph.neighbours(open[i]))
      if (distance[at_index(next.vertex)] < 0) {
        distance[at_index(next.vertex)] = distance[at_index(open[i])] + 1;
        open.push_back(next.vertex);
      }
  return distance[at_index(open.back())];
}

// Vertices from which a tree is at most a sixteenth deeper than from the centre: all on a torus, the middle
// on a mesh.
std::vector<int> central_vertices(const Graph& graph) {
  std::vector<int> far(at_index(graph.vertices()));
  for (int vertex = 0; vertex < graph.vertices(); ++vertex)
    far[at_index(vertex)] = eccentricity(graph, vertex);
  const int radius = *std::min_element(far.begin(), far.end());
  std::vector<int> out;
  for (int vertex = 0; vertex < graph.vertices(); ++vertex)
    if (far[at_index(vertex)] <= radius + radius / 16) out.push_back(vertex);
  return out;
}

class Packer {
 public:
  Packer(const Graph& graph, const PackingOptions& options)
      : graph_(graph),
        options_(options),
        past_excess_(graph.edges().size()),
        fair_(fair_load(graph, strength_of(graph).tau, options.trees)),
        depth_(at_index(graph.vertices())) {
    out_.load.resize(graph.edges().size());
  }

  Packing result() {
    build();
    Packing best = out_;
    for (int round = 0; round < options_.rounds && best.busiest > fair_; ++round) {
      rebuild(kExcessPrice + round);
      if (out_.busiest < best.busiest) best = out_;
    }
    return best;
  }

 private:
  void build() {
    const std::vector<int> roots = central_vertices(graph_);
    for (int tree = 0; tree < options_.trees; ++tree) {
      // Multiples of the golden ratio, modulo 1, leave no large gap, however many are taken.
      const double place = std::fmod(0.6180339887498949 * tree, 1.0) * static_cast<double>(roots.size());
      out_.trees.push_back(
          grow(roots[static_cast<std::size_t>(place)], [&](int edge) { return load(edge, 0); }));
      count(out_.trees.back(), 1);
    }
    measure();
  }

  // Negotiated congestion: an edge costs what it would carry beyond its fair load, now and in the rounds
  // before, so that trees which can do without it leave it to the others.
  void rebuild(double excess_price) {
    for (Tree& tree : out_.trees) {
      count(tree, -1);
      tree = grow(tree.root, [&](int edge) {
        return excess_price * std::max(0.0, load(edge, 1) - fair_) + past_excess_[at_index(edge)] +
               kLoadPrice * load(edge, 0) / fair_;
      });
      count(tree, 1);
    }
    for (int edge = 0; edge < static_cast<int>(past_excess_.size()); ++edge)
      past_excess_[at_index(edge)] += std::max(0.0, load(edge, 0) - fair_);
    measure();
  }

  // The load of an edge with this many more trees, per capacity.
  [[nodiscard]] double load(int edge, int more) const {
    return static_cast<double>(out_.load[at_index(edge)] + more) /
           static_cast<double>(graph_.edges()[at_index(edge)].capacity);
  }

  void count(const Tree& tree, int change) {
    for (const int edge : tree.edge)
      if (edge >= 0) out_.load[at_index(edge)] += change;
  }

  void measure() {
    out_.busiest = 0;
    for (int edge = 0; edge < static_cast<int>(out_.load.size()); ++edge)
      out_.busiest = std::max(out_.busiest, load(edge, 0));
  }

  // Prim's algorithm with a price for depth. Ties: the smaller edge wins, then the smaller end.
  template <typename Price>
  Tree grow(int root, const Price& price) {
    Tree tree{.root = root, .depth = 0, .parent = {}, .edge = {}, .order = {}};
    tree.parent.assign(at_index(graph_.vertices()), -1);
    tree.edge.assign(at_index(graph_.vertices()), -1);
    std::fill(depth_.begin(), depth_.end(), -1);
    using Way = std::tuple<double, int, int, int>;  // its price, the edge, its start, its end
    std::priority_queue<Way, std::vector<Way>, std::greater<>> ways;
    const auto reach = [&](int vertex, int depth) {
      depth_[at_index(vertex)] = depth;
      tree.depth = std::max(tree.depth, depth);
      tree.order.push_back(vertex);
      for (const Neighbour& next : graph_.neighbours(vertex))
        if (depth_[at_index(next.vertex)] < 0)
          ways.emplace(price(next.edge) + options_.depth_price * (depth + 1), next.edge, vertex, next.vertex);
    };
    reach(root, 0);
    while (!ways.empty()) {
      const auto [cost, edge, from, to] = ways.top();
      ways.pop();
      if (depth_[at_index(to)] >= 0) continue;
      tree.parent[at_index(to)] = from;
      tree.edge[at_index(to)] = edge;
      reach(to, depth_[at_index(from)] + 1);
    }
    return tree;
  }

  const Graph& graph_;
  const PackingOptions& options_;
  std::vector<double> past_excess_;  // for each edge, summed over the rounds
  double fair_;                      // fair_load()
  std::vector<int> depth_;
  Packing out_;
};

}  // namespace

std::vector<int> Tree::depths() const {
  std::vector<int> out(parent.size());
  for (const int vertex : order)
    if (vertex != root) out[at_index(vertex)] = out[at_index(parent[at_index(vertex)])] + 1;
  return out;
}

std::vector<int> Tree::heights() const {
  std::vector<int> out(parent.size());
  for (std::size_t i = order.size(); i-- > 1;) {  // the first is the root
    const int vertex = order[i];
    int& above = out[at_index(parent[at_index(vertex)])];
    above = std::max(above, out[at_index(vertex)] + 1);
  }
  return out;
}

double Packing::mean_depth() const noexcept {
  double sum = 0;
  for (const Tree& tree : trees) sum += tree.depth;
  return sum / static_cast<double>(trees.size());
}

double fair_load(const Graph& graph, const Fraction& tau, int trees) {
  std::int64_t finest = 1;  // loads are multiples of 1 / capacity
  for (const Edge& edge : graph.edges()) finest = std::max(finest, edge.capacity);
  // Exact for products below 2^53: a quotient that is a whole number is then not rounded.
  const double wanted =
      static_cast<double>(trees) * static_cast<double>(tau.denominator) * static_cast<double>(finest);
  return std::ceil(wanted / static_cast<double>(tau.numerator)) / static_cast<double>(finest);
}

Packing pack_trees(const Graph& graph, const PackingOptions& options) {
  if (options.trees < 1 || !(options.depth_price >= 0) || options.rounds < 0)
    fail(ErrorCode::bad_input, "{} trees, depth price {}, {} rounds: at least one tree, and nothing negative",
         options.trees, options.depth_price, options.rounds);
  if (const int pieces = graph.components(); pieces > 1)
    fail(ErrorCode::bad_input, "the graph is in {} pieces: no spanning tree joins them", pieces);
  return Packer(graph, options).result();
}

}  // namespace bitrift::comm
