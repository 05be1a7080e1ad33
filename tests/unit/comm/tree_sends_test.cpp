#include "comm/model/tree_sends.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "comm/graph/strength.h"
#include "comm/model/tree_plan.h"
#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

const LinkCost kPodLink = {.bandwidth = 83e9, .latency = 1e-6, .overhead = 1e-7};

// Runs the sends as they start in the model, with one number for each chip and piece: every chip must end
// with the sum of all.
void expect_sums(const Graph& mesh, const TreeSends& list, int pieces, LinkOrder order) {
  const LinkTimes times = simulate(mesh, kPodLink, list.sends, order);
  struct Event {
    double time;
    bool arrives;
    SendId send;
    bool operator<(const Event& other) const {
      return std::tie(time, other.arrives, send) < std::tie(other.time, arrives, other.send);
    }
  };
  std::vector<Event> events;
  for (SendId send = 0; send < list.sends.size(); ++send) {
    const double busy = kPodLink.overhead + list.sends.bytes(send) / kPodLink.bandwidth;
    events.push_back({times.start[send], false, send});
    events.push_back({times.start[send] + busy + kPodLink.latency, true, send});
  }
  std::sort(events.begin(), events.end());
  const auto chips = static_cast<std::size_t>(mesh.vertices()), count = static_cast<std::size_t>(pieces);
  std::vector<std::vector<double>> held(chips, std::vector<double>(count));
  for (std::size_t chip = 0; chip < chips; ++chip)
    for (std::size_t piece = 0; piece < count; ++piece)
      held[chip][piece] = static_cast<double>((chip + 1) * (piece + 7));
  std::vector<double> carried(list.sends.size());
  for (const Event& event : events) {
    const std::size_t piece = list.piece[event.send];
    if (!event.arrives) {
      carried[event.send] = held[static_cast<std::size_t>(list.sends.from(event.send))][piece];
    } else {
      double& there = held[static_cast<std::size_t>(list.sends.to(event.send))][piece];
      there = list.down[event.send] ? carried[event.send] : there + carried[event.send];
    }
  }
  for (std::size_t chip = 0; chip < chips; ++chip)
    for (std::size_t piece = 0; piece < count; ++piece)
      ASSERT_EQ(held[chip][piece], static_cast<double>(chips * (chips + 1) / 2 * (piece + 7)))
          << chip << " " << piece;
}

TEST(TreeSends, EveryChipEndsWithTheSumOfAll) {
  for (const Graph& mesh :
       {mesh_graph({"###", "#.#", "##."}), mesh_graph(4, 4, 2, 2, false), mesh_graph(5, 4, 0, 0, true)}) {
    const Packing packing = pack_trees(mesh, {.trees = 5});
    const TreeSends sends = tree_sends(packing, 3, 1e6, kPodLink);
    EXPECT_EQ(sends.sends.size(), static_cast<std::size_t>(2 * 5 * 3 * (mesh.vertices() - 1)));
    for (const LinkOrder order : {LinkOrder::arrival, LinkOrder::priority})
      expect_sums(mesh, sends, 15, order);
  }
}

TEST(TreeSends, InOrderOfStartFirstInFirstOutTakesTheSameTime) {
  const Graph mesh = mesh_graph(8, 8, 2, 2, false);
  const TreePlan plan = plan_trees(mesh, 1e6, kPodLink);
  const TreeSends sends = tree_sends(plan.packing, plan.chunks, 1e6, kPodLink);
  const LinkTimes times = simulate(mesh, kPodLink, sends.sends, LinkOrder::priority);
  const TreeSends listed = in_order_of_start(sends, times.start);
  EXPECT_DOUBLE_EQ(simulate(mesh, kPodLink, listed.sends, LinkOrder::listed).finish, times.finish);
  expect_sums(mesh, listed, static_cast<int>(plan.packing.trees.size()) * plan.chunks, LinkOrder::listed);
}

TEST(TreeSends, EachDirectionCarriesTheLoadOfThePacking) {
  const Graph mesh = mesh_graph(4, 5, 0, 0, false);
  const Packing packing = pack_trees(mesh, {.trees = 6});
  const LinkCost cost = {.bandwidth = 1e9, .latency = 0, .overhead = 0};
  const LinkTimes times = simulate(mesh, cost, tree_sends(packing, 4, 6e9, cost).sends, LinkOrder::priority);
  for (std::size_t i = 0; i < mesh.edges().size(); ++i) {
    EXPECT_NEAR(times.forward[i], static_cast<double>(packing.load[i]), 1e-9);
    EXPECT_NEAR(times.backward[i], static_cast<double>(packing.load[i]), 1e-9);
  }
  EXPECT_GE(times.finish, bound_seconds(6e9, 1e9, strength_of(mesh).tau.value()));
}

// No schedule is faster than the bound, and large messages come close to it.
TEST(TreeSends, LargeMessagesComeCloseToTheBound) {
  for (const bool wrap : {false, true})
    for (const int hole : {0, 2}) {
      const Graph mesh = mesh_graph(6, 6, hole, hole, wrap);
      const double bound = bound_seconds(1.34e9, kPodLink.bandwidth, strength_of(mesh).tau.value());
      const TreePlan plan = plan_trees(mesh, 1.34e9, kPodLink);
      const TreeSends sends = tree_sends(plan.packing, plan.chunks, 1.34e9, kPodLink);
      const double finish = simulate(mesh, kPodLink, sends.sends, LinkOrder::priority).finish;
      EXPECT_GE(finish, bound);
      EXPECT_LE(finish, bound / 0.9) << hole << (wrap ? " torus" : " mesh");
    }
}

TEST(TreeSends, LatencyAndOverheadLeaveSeventyPercentOn504Chips) {
  const Graph mesh = mesh_graph(16, 32, 4, 2, false);
  const double bound = bound_seconds(102e6, kPodLink.bandwidth, strength_of(mesh).tau.value());
  const TreePlan plan = plan_trees(mesh, 102e6, kPodLink);
  const TreeSends sends = tree_sends(plan.packing, plan.chunks, 102e6, kPodLink);
  const double finish = simulate(mesh, kPodLink, sends.sends, LinkOrder::priority).finish;
  EXPECT_LE(finish, bound / 0.7);
  EXPECT_NEAR(finish, plan.estimate, 0.05 * finish);
}

TEST(TreePlan, SmallMessagesGetFewTreesAndChunks) {
  const Graph mesh = mesh_graph(6, 6, 0, 0, false);
  const TreePlan tiny = plan_trees(mesh, 8, kPodLink);
  EXPECT_EQ(tiny.chunks, 1);
  EXPECT_EQ(tiny.packing.trees.front().depth, 6);
  const TreePlan large = plan_trees(mesh, 1.34e9, kPodLink);
  EXPECT_GT(large.chunks, 50);
  EXPECT_GT(large.packing.value(), 1.5);
}

TEST(TreePlan, ChunksAreLimitedWhereMessagesCostNothing) {
  const Graph mesh = mesh_graph(3, 3, 0, 0, false);
  const LinkCost free = {.bandwidth = 1e9, .latency = 0, .overhead = 0};
  const Packing packing = pack_trees(mesh, {.trees = 3});
  const Chunking found = choose_chunks(3, packing.busiest, packing.mean_depth(), 1e9, free, 100);
  EXPECT_EQ(found.chunks, 33);
  // Load of the busiest link, then twice the depth for one piece.
  EXPECT_DOUBLE_EQ(found.seconds, packing.busiest / 3 + 2 * packing.mean_depth() / 99);
  EXPECT_THROW((void)tree_sends(packing, 0, 1e9, free), Error);
}

}  // namespace
}  // namespace bitrift::comm
