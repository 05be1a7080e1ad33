#include "comm/graph/strength.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

using Cells = std::vector<std::pair<int, int>>;

// Every partition of the vertices, by brute force: vertex by vertex into each part there is, or a new one.
class AllPartitions {
 public:
  explicit AllPartitions(const Graph& graph)
      : graph_(graph), part_(static_cast<std::size_t>(graph.vertices())), best_{total(), 1} {
    place(0, 0, 0);
  }
  // The smallest (capacity between parts) / (parts - 1).
  [[nodiscard]] Fraction least() const {
    const std::int64_t common = std::gcd(best_.numerator, best_.denominator);
    return {best_.numerator / common, best_.denominator / common};
  }

 private:
  [[nodiscard]] std::int64_t total() const {
    std::int64_t sum = 1;  // more than any partition has
    for (const Edge& edge : graph_.edges()) sum += edge.capacity;
    return sum;
  }
  void place(int vertex, int parts, std::int64_t between) {
    if (vertex == graph_.vertices()) {
      if (parts > 1 && between * best_.denominator < best_.numerator * (parts - 1))
        best_ = {between, parts - 1};
      return;
    }
    for (int part = 0; part <= parts; ++part) {
      std::int64_t cut = between;
      for (const Neighbour& next : graph_.neighbours(vertex))
        if (next.vertex < vertex && part_[static_cast<std::size_t>(next.vertex)] != part)
          cut += graph_.edges()[static_cast<std::size_t>(next.edge)].capacity;
      part_[static_cast<std::size_t>(vertex)] = part;
      place(vertex + 1, std::max(parts, part + 1), cut);
    }
  }

  const Graph& graph_;
  std::vector<int> part_;
  Fraction best_;
};

void expect_brute_force(const Graph& graph, const std::string& what) {
  const Strength found = strength_of(graph);
  EXPECT_EQ(found.tau, AllPartitions(graph).least()) << what;
  EXPECT_EQ(partition_ratio(graph, found.part), found.tau) << what;
  EXPECT_EQ(std::set<int>(found.part.begin(), found.part.end()).size(), static_cast<std::size_t>(found.parts))
      << what;
}

std::vector<std::string> drawn(const Cells& cells) {
  int height = 0, width = 0;
  for (const auto& [row, column] : cells)
    height = std::max(height, row + 1), width = std::max(width, column + 1);
  std::vector<std::string> rows(static_cast<std::size_t>(height),
                                std::string(static_cast<std::size_t>(width), '.'));
  for (const auto& [row, column] : cells)
    rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = '#';
  return rows;
}

// The same cells, moved to the corner, sorted.
Cells cornered(Cells cells) {
  int top = cells.front().first, left = cells.front().second;
  for (const auto& [row, column] : cells) top = std::min(top, row), left = std::min(left, column);
  for (auto& [row, column] : cells) row -= top, column -= left;
  std::sort(cells.begin(), cells.end());
  return cells;
}

// One of the eight turned and mirrored copies: the same for all of them.
Cells canonical(Cells cells) {
  Cells least;
  for (int turn = 0; turn < 8; ++turn) {
    for (auto& [row, column] : cells) {
      if (turn % 4 == 0) std::swap(row, column);
      if (turn % 4 != 0) row = std::exchange(column, -row);
    }
    Cells moved = cornered(cells);
    if (least.empty() || moved < least) least = std::move(moved);
  }
  return least;
}

// All connected shapes of one more cell.
std::set<Cells> grown(const std::set<Cells>& shapes) {
  std::set<Cells> out;
  for (const Cells& shape : shapes)
    for (const auto& [row, column] : shape)
      for (const auto& [down, right] :
           {std::pair(0, 1), std::pair(1, 0), std::pair(0, -1), std::pair(-1, 0)}) {
        Cells more = shape;
        more.emplace_back(row + down, column + right);
        if (std::find(shape.begin(), shape.end(), more.back()) == shape.end()) out.insert(canonical(more));
      }
  return out;
}

std::vector<std::string_view> views(const std::vector<std::string>& rows) {
  return {rows.begin(), rows.end()};
}

std::string text(const std::vector<std::string>& rows) {
  std::string out;
  for (const std::string& row : rows) out += row + "\n";
  return out;
}

// Every set of live chips of every mesh that is connected has one of these shapes.
TEST(Strength, EqualsBruteForceOnEveryConnectedSubMeshOfUpToNineChips) {
  std::set<Cells> shapes = {{{0, 0}}};
  std::vector<std::size_t> counts;
  for (int chips = 2; chips <= 9; ++chips) {
    shapes = grown(shapes);
    counts.push_back(shapes.size());
    for (const Cells& shape : shapes) expect_brute_force(mesh_graph(views(drawn(shape))), text(drawn(shape)));
  }
  // Free polyominoes, https://oeis.org/A000105.
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 2, 5, 12, 35, 108, 369, 1285}));
}

TEST(Strength, EqualsBruteForceOnEveryConnectedPartOfSmallMeshesThatWrapAround) {
  int checked = 0;
  for (const auto& [height, width] : {std::pair(1, 9), std::pair(2, 4), std::pair(3, 3), std::pair(2, 2)}) {
    const int chips = height * width;
    for (unsigned live = 1; live < 1U << chips; ++live) {
      std::vector<std::string> rows(static_cast<std::size_t>(height),
                                    std::string(static_cast<std::size_t>(width), '.'));
      int count = 0;
      for (int chip = 0; chip < chips; ++chip)
        if ((live >> chip & 1U) != 0)
          ++count, rows[static_cast<std::size_t>(chip / width)][static_cast<std::size_t>(chip % width)] = '#';
      if (count < 2) continue;
      const Graph graph = mesh_graph(views(rows), true);
      if (graph.components() > 1) continue;
      ++checked;
      expect_brute_force(graph, text(rows));
    }
  }
  EXPECT_GT(checked, 500);
}

TEST(Strength, EqualsBruteForceOnRandomGraphsWithCapacities) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const int vertices = 2 + static_cast<int>(random_below(seed, 0, 0, 6));
    std::vector<Edge> edges;
    for (int a = 0; a < vertices; ++a)
      for (int b = 0; b < a; ++b)
        if (random_below(seed, 1, static_cast<std::uint64_t>(a * 8 + b), 2) == 0)
          edges.push_back({a, b,
                           1 + static_cast<std::int64_t>(
                                   random_below(seed, 2, static_cast<std::uint64_t>(a * 8 + b), 9))});
    expect_brute_force(Graph(vertices, edges), "seed " + std::to_string(seed));
  }
}

// Pushes of 1 at a time would take days.
TEST(Strength, LargeCapacitiesTakeNoLongerThanSmallOnes) {
  const Graph mesh = mesh_graph(10, 10, 2, 2, true);
  std::vector<Edge> small = mesh.edges(), large;
  for (std::size_t i = 0; i < small.size(); ++i)
    small[i].capacity = 1 + static_cast<std::int64_t>(random_below(3, 0, i, 9));
  constexpr std::int64_t factor = std::int64_t{1} << 42;
  for (const Edge& edge : small) large.push_back({edge.a, edge.b, edge.capacity * factor});
  const Strength expected = strength_of(Graph(mesh.vertices(), small));
  const Strength found = strength_of(Graph(mesh.vertices(), large));
  EXPECT_EQ(found.part, expected.part);
  EXPECT_EQ(found.tau.numerator * expected.tau.denominator,
            expected.tau.numerator * factor * found.tau.denominator);
}

TEST(Strength, ADenseCoreWithATailIsBoundByItsTail) {
  const Strength found = strength_of(mesh_graph({"###.", "####", "###."}));
  EXPECT_EQ(found.tau, (Fraction{1, 1}));
  EXPECT_EQ(found.parts, 2);
}

TEST(Strength, LargeMeshesHaveTheKnownBounds) {
  EXPECT_EQ(strength_of(mesh_graph(16, 32, 0, 0, false)).tau, (Fraction{976, 511}));
  EXPECT_EQ(strength_of(mesh_graph(32, 32, 0, 0, false)).tau, (Fraction{64, 33}));  // 1984 links / 1023
  EXPECT_EQ(strength_of(mesh_graph(32, 32, 2, 2, true)).tau, (Fraction{2036, 1019}));
  EXPECT_EQ(strength_of(mesh_graph(4, 4, 2, 2, false)).tau, (Fraction{12, 11}));  // a ring of 12
}

TEST(Strength, AGraphInPiecesHasStrengthZero) {
  const Strength found = strength_of(mesh_graph({"##.##"}));
  EXPECT_EQ(found.tau, (Fraction{0, 1}));
  EXPECT_EQ(found.part, (std::vector<int>{0, 0, 1, 1}));
}

TEST(Strength, WhatHasNoPartitionIsRefused) {
  EXPECT_THROW((void)strength_of(Graph(1, {})), Error);
  const Graph pair(2, {{0, 1, 5}});
  EXPECT_EQ(strength_of(pair).tau, (Fraction{5, 1}));
  EXPECT_THROW((void)partition_ratio(pair, {0, 0}), Error);
  EXPECT_THROW((void)partition_ratio(pair, {0}), Error);
}

}  // namespace
}  // namespace bitrift::comm
