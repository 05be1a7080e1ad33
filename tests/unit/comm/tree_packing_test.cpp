#include "comm/graph/tree_packing.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/graph/strength.h"
#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

// That every tree spans the graph along its edges, and that the loads are theirs. Uses only edges(), parent
// and edge.
void expect_valid(const Graph& graph, const Packing& packing) {
  std::vector<std::int64_t> load(graph.edges().size());
  for (const Tree& tree : packing.trees) {
    ASSERT_EQ(tree.parent.size(), static_cast<std::size_t>(graph.vertices()));
    int deepest = 0;
    for (int vertex = 0; vertex < graph.vertices(); ++vertex) {
      int steps = 0;
      for (int at = vertex; at != tree.root; ++steps) {
        ASSERT_LE(steps, graph.vertices()) << "a circle at vertex " << vertex;
        const Edge& edge =
            graph.edges().at(static_cast<std::size_t>(tree.edge[static_cast<std::size_t>(at)]));
        const int parent = tree.parent[static_cast<std::size_t>(at)];
        ASSERT_TRUE((edge.a == at && edge.b == parent) || (edge.b == at && edge.a == parent));
        at = parent;
      }
      EXPECT_EQ(tree.depths()[static_cast<std::size_t>(vertex)], steps);
      deepest = std::max(deepest, steps);
      if (vertex != tree.root) ++load[static_cast<std::size_t>(tree.edge[static_cast<std::size_t>(vertex)])];
    }
    EXPECT_EQ(tree.depth, deepest);
    EXPECT_EQ(tree.heights()[static_cast<std::size_t>(tree.root)], deepest);
    EXPECT_EQ(std::set<int>(tree.order.begin(), tree.order.end()).size(), tree.parent.size());
    EXPECT_EQ(tree.order.front(), tree.root);
  }
  EXPECT_EQ(packing.load, load);
  double busiest = 0;
  for (std::size_t i = 0; i < load.size(); ++i)
    busiest =
        std::max(busiest, static_cast<double>(load[i]) / static_cast<double>(graph.edges()[i].capacity));
  EXPECT_EQ(packing.busiest, busiest);
  EXPECT_LE(packing.value(), strength_of(graph).tau.value() * (1 + 1e-12));
}

TEST(TreePacking, ARingIsPackedPerfectly) {
  const Graph ring = mesh_graph(4, 4, 2, 2, false);
  const Packing packing = pack_trees(ring, {.trees = 12});
  expect_valid(ring, packing);
  EXPECT_DOUBLE_EQ(packing.value(),
                   strength_of(ring).tau.value());  // each tree leaves out one of the twelve links
}

TEST(TreePacking, AWholeSmallMeshIsPackedPerfectly) {
  const Graph mesh = mesh_graph(4, 4, 0, 0, false);
  const Packing packing = pack_trees(mesh, {.trees = 8});
  expect_valid(mesh, packing);
  EXPECT_DOUBLE_EQ(packing.value(), 1.6);
}

TEST(TreePacking, ATreeIsItsOnlyPacking) {
  const Graph line = mesh_graph({"#####"});
  const Packing packing = pack_trees(line, {.trees = 5});
  expect_valid(line, packing);
  EXPECT_EQ(packing.value(), 1);
  for (const Tree& tree : packing.trees) EXPECT_EQ(tree.depth, 2) << "the root is the middle";
}

TEST(TreePacking, CapacitiesCount) {
  const Graph graph(3, {{0, 1, 3}, {1, 2, 1}, {0, 2, 2}});
  const Packing packing = pack_trees(graph, {.trees = 24});
  expect_valid(graph, packing);
  EXPECT_GE(packing.value(), 0.95 * strength_of(graph).tau.value());
}

TEST(TreePacking, LinksThatAreThereTwiceCountTwice) {
  for (const auto& [rows, columns] : {std::pair(2, 2), std::pair(2, 3), std::pair(2, 4), std::pair(2, 6)}) {
    const Graph torus = mesh_graph(rows, columns, 0, 0, true);
    const Packing packing = pack_trees(torus, {.trees = 16});
    expect_valid(torus, packing);
    EXPECT_GE(packing.value(), 0.9 * strength_of(torus).tau.value()) << rows << "x" << columns;
  }
}

TEST(TreePacking, TheFairLoadIsALoadThatSomeEdgeCanHave) {
  const Graph plain(2, {{0, 1, 1}}), doubled(3, {{0, 1, 2}, {1, 2, 1}});
  EXPECT_EQ(fair_load(plain, {3, 2}, 6), 4);
  EXPECT_EQ(fair_load(plain, {3, 2}, 7), 5);  // 4.67
  EXPECT_EQ(fair_load(doubled, {8, 3}, 4), 1.5);
  EXPECT_EQ(fair_load(doubled, {8, 3}, 5), 2);  // 1.875
}

TEST(TreePacking, IsWithinFivePercentOfTheBoundForThousandsOfLinks) {
  for (const bool wrap : {false, true})
    for (const auto& [rows, down, right] :
         {std::tuple(16, 0, 0), std::tuple(16, 4, 2), std::tuple(32, 0, 0), std::tuple(32, 2, 2),
          std::tuple(32, 4, 2), std::tuple(32, 4, 4)}) {
      const Graph mesh = mesh_graph(rows, 32, down, right, wrap);
      const Strength bound = strength_of(mesh);
      EXPECT_EQ(partition_ratio(mesh, bound.part), bound.tau);
      const Packing packing = pack_trees(mesh, {.trees = 61});
      expect_valid(mesh, packing);
      EXPECT_GE(packing.value(), 0.95 * bound.tau.value())
          << rows << " rows, " << down << "x" << right << " dead";
    }
}

TEST(TreePacking, RebuildingEvensTheLoads) {
  const Graph mesh = mesh_graph(16, 32, 0, 0, false);
  const double greedy = pack_trees(mesh, {.trees = 59, .rounds = 0}).value();
  EXPECT_GT(pack_trees(mesh, {.trees = 61}).value(), 1.02 * greedy);
}

TEST(TreePacking, TheSameGraphGivesTheSameTrees) {
  const Graph mesh = mesh_graph(8, 8, 2, 2, true);
  const Packing one = pack_trees(mesh, {.trees = 20}), other = pack_trees(mesh, {.trees = 20});
  for (std::size_t i = 0; i < one.trees.size(); ++i) EXPECT_EQ(one.trees[i].parent, other.trees[i].parent);
}

TEST(TreePacking, WhatCannotBePackedIsRefused) {
  const auto refusal = [](const Graph& graph, const PackingOptions& options) -> std::string {
    try {
      (void)pack_trees(graph, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(mesh_graph({"##.#"}), {}), "the graph is in 2 pieces: no spanning tree joins them");
  EXPECT_THAT(refusal(mesh_graph({"##"}), {.trees = 0}), testing::HasSubstr("0 trees"));
  EXPECT_THAT(refusal(mesh_graph({"##"}), {.trees = 1, .rounds = -1}), testing::HasSubstr("-1 rounds"));
  EXPECT_THAT(refusal(mesh_graph({"##"}), {.trees = 1, .depth_price = -1}),
              testing::HasSubstr("depth price -1"));
  EXPECT_THAT(refusal(mesh_graph({"#"}), {}), testing::HasSubstr("one vertex"));
}

}  // namespace
}  // namespace bitrift::comm
