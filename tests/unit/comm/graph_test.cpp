#include "comm/graph/graph.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

std::string refusal(int vertices, std::vector<Edge> edges) {
  try {
    const Graph graph(vertices, std::move(edges));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(Graph, NeighboursAreTheEdgesOfAVertexInTheirOrder) {
  const Graph graph(4, {{2, 0, 1}, {0, 1, 3}, {1, 2, 1}});
  std::vector<std::pair<int, int>> seen;
  for (const Neighbour& next : graph.neighbours(0)) seen.emplace_back(next.vertex, next.edge);
  EXPECT_THAT(seen, testing::ElementsAre(std::pair(2, 0), std::pair(1, 1)));
  EXPECT_TRUE(graph.neighbours(3).empty());
}

TEST(Graph, ComponentsAreCounted) {
  EXPECT_EQ(Graph(4, {{0, 1, 1}, {2, 3, 1}}).components(), 2);
  EXPECT_EQ(mesh_graph({"##.#"}).components(), 2);
  EXPECT_EQ(mesh_graph({"##.#"}, true).components(), 1);
  EXPECT_EQ(mesh_graph({"#.", ".#"}).components(), 2);
}

TEST(Graph, WhatIsNoGraphIsRefused) {
  EXPECT_EQ(refusal(0, {}), "a graph of 0 vertices: it needs at least one");
  const std::string ends = "its ends must be two of the vertices 0 to 1";
  EXPECT_EQ(refusal(2, {{0, 2, 1}}), "edge 0-2: " + ends);
  EXPECT_EQ(refusal(2, {{-1, 1, 1}}), "edge -1-1: " + ends);
  EXPECT_EQ(refusal(2, {{1, 1, 1}}), "edge 1-1: " + ends);
  EXPECT_THAT(refusal(2, {{0, 1, 0}}), testing::HasSubstr("its capacity, 0, must be at least 1"));
  constexpr std::int64_t half = std::int64_t{1} << 59;
  EXPECT_EQ(refusal(2, {{0, 1, half}}), "accepted");
  EXPECT_THAT(refusal(2, {{0, 1, half}, {1, 0, 1}}),
              testing::HasSubstr("and the sum at most 576460752303423488"));
  EXPECT_THAT(refusal(2, {{0, 1, std::numeric_limits<std::int64_t>::max()}}),
              testing::HasSubstr("must be at least 1"));
}

}  // namespace
}  // namespace bitrift::comm
