// Trees and other schedules in the model of the links.
#include "comm/model/schedule_sends.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "comm/graph/strength.h"
#include "comm/graph/topology_graph.h"
#include "comm/model/tree_plan.h"
#include "comm/plan/planner.h"
#include "comm/plan/trees.h"
#include "comm/verify.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

const LinkCost kPodLink = {.bandwidth = 83e9, .latency = 1e-6, .overhead = 1e-7};

double finish_of(const Schedule& schedule, const Workload& work) {
  return simulate(graph_of(schedule.topology()), work.cost, sends_of(schedule, work.bytes),
                  LinkOrder::priority)
      .finish;
}

double bound_of(const Topology& mesh, double bytes) {
  return bound_seconds(bytes, kPodLink.bandwidth, strength_of(graph_of(mesh)).tau.value());
}

// Runs the sends as they start in the model, with one number for each chip and chunk: every chip must end
// with the sum of all. send_at: of each in the list, its place in the schedule.
void expect_sums(const Schedule& schedule, const SendList& list, const std::vector<SendId>& send_at,
                 LinkOrder order) {
  const Graph mesh = graph_of(schedule.topology());
  const LinkTimes times = simulate(mesh, kPodLink, list, order);
  struct Event {
    double time;
    bool arrives;
    SendId send;
    bool operator<(const Event& other) const {
      return std::tie(time, other.arrives, send) < std::tie(other.time, arrives, other.send);
    }
  };
  std::vector<Event> events;
  for (SendId send = 0; send < list.size(); ++send) {
    const double busy = kPodLink.overhead + list.bytes(send) / kPodLink.bandwidth;
    events.push_back({times.start[send], false, send});
    events.push_back({times.start[send] + busy + kPodLink.latency, true, send});
  }
  std::sort(events.begin(), events.end());
  const auto chips = static_cast<std::size_t>(mesh.vertices()), count = std::size_t{schedule.chunks()};
  std::vector<std::vector<double>> held(chips, std::vector<double>(count));
  for (std::size_t chip = 0; chip < chips; ++chip)
    for (std::size_t piece = 0; piece < count; ++piece)
      held[chip][piece] = static_cast<double>((chip + 1) * (piece + 7));
  std::vector<double> carried(list.size());
  for (const Event& event : events) {
    const Send& send = schedule.send(send_at[event.send]);
    const std::size_t piece = send.chunk;
    if (!event.arrives) {
      carried[event.send] = held[static_cast<std::size_t>(list.from(event.send))][piece];
    } else {
      double& there = held[static_cast<std::size_t>(list.to(event.send))][piece];
      there = send.kind == SendKind::copy ? carried[event.send] : there + carried[event.send];
    }
  }
  for (std::size_t chip = 0; chip < chips; ++chip)
    for (std::size_t piece = 0; piece < count; ++piece)
      ASSERT_EQ(held[chip][piece], static_cast<double>(chips * (chips + 1) / 2 * (piece + 7)))
          << chip << " " << piece;
}

TEST(TreeSends, EveryChipEndsWithTheSumOfAll) {
  for (const Topology& mesh : {mesh_with_hole(3, 3, 1, 1, false), mesh_with_hole(4, 4, 2, 2, false),
                               mesh_with_hole(5, 4, 0, 0, true), mesh_with_hole(2, 3, 0, 0, true)}) {
    for (const Scheme scheme : {Scheme::trees, Scheme::ring, Scheme::forwarding}) {
      if (scheme == Scheme::ring && mesh.rows() * mesh.columns() == 9) continue;
      const Schedule schedule = plan_schedule(mesh, scheme, {.bytes = 1e6, .cost = kPodLink});
      const SendList sends = sends_of(schedule, 1e6);
      std::vector<SendId> same(sends.size());
      std::iota(same.begin(), same.end(), SendId{0});
      for (const LinkOrder order : {LinkOrder::arrival, LinkOrder::priority})
        expect_sums(schedule, sends, same, order);
    }
  }
}

TEST(TreeSends, InOrderOfStartAFixedListTakesTheSameTime) {
  const Topology mesh = mesh_with_hole(8, 8, 2, 2, false);
  const Schedule schedule = plan_trees(mesh, {.bytes = 1e6, .cost = kPodLink});
  const SendList sends = sends_of(schedule, 1e6);
  const LinkTimes times = simulate(graph_of(mesh), kPodLink, sends, LinkOrder::priority);
  const std::vector<SendId> order = order_of_start(times.start);
  const SendList listed = reordered(sends, order);
  EXPECT_DOUBLE_EQ(simulate(graph_of(mesh), kPodLink, listed, LinkOrder::listed).finish, times.finish);
  expect_sums(schedule, listed, order, LinkOrder::listed);
}

TEST(TreeSends, EachDirectionCarriesTheLoadOfThePacking) {
  const Topology mesh = mesh_with_hole(4, 5, 0, 0, false);
  const LinkCost cost = {.bandwidth = 1e9, .latency = 0, .overhead = 0};
  const TreePlan plan = choose_trees(graph_of(mesh), 6e9, cost);
  const LinkTimes times =
      simulate(graph_of(mesh), cost, sends_of(plan_trees(mesh, {.bytes = 6e9, .cost = cost}), 6e9),
               LinkOrder::priority);
  for (std::size_t i = 0; i < plan.packing.load.size(); ++i) {
    const double seconds =
        6.0 * static_cast<double>(plan.packing.load[i]) / static_cast<double>(plan.packing.trees.size());
    EXPECT_NEAR(times.forward[i], seconds, 1e-9);
    EXPECT_NEAR(times.backward[i], seconds, 1e-9);
  }
  EXPECT_GE(times.finish, bound_seconds(6e9, 1e9, strength_of(graph_of(mesh)).tau.value()));
}

// No schedule is faster than the bound, and large messages come close to it.
TEST(TreeSends, LargeMessagesComeCloseToTheBound) {
  for (const bool wrap : {false, true})
    for (const int hole : {0, 2}) {
      const Topology mesh = mesh_with_hole(6, 6, hole, hole, wrap);
      const Workload work = {.bytes = 1.34e9, .cost = kPodLink};
      const double finish = finish_of(plan_trees(mesh, work), work);
      EXPECT_GE(finish, bound_of(mesh, work.bytes));
      EXPECT_LE(finish, bound_of(mesh, work.bytes) / 0.9) << hole << (wrap ? " torus" : " mesh");
    }
}

TEST(TreeSends, LatencyAndOverheadLeaveSeventyPercentOn188Chips) {
  const Topology mesh = mesh_with_hole(12, 16, 2, 2, false);
  const Workload work = {.bytes = 102e6, .cost = kPodLink};
  const double finish = finish_of(plan_trees(mesh, work), work);
  EXPECT_LE(finish, bound_of(mesh, work.bytes) / 0.7);
  EXPECT_NEAR(finish, choose_trees(graph_of(mesh), work.bytes, work.cost).estimate, 0.05 * finish);
}

// A chip adds what its children send one after the other, but what they send may arrive in any order: only
// what the chip sends on waits for all of them.
TEST(ScheduleSends, WhatAWriteWaitsForHoldsUpTheNextReadOnly) {
  Schedule schedule(Topology(1, 3, Wrap::neither, {}, {}), Scheme::other, 1);
  schedule.append({0, 1, 0, SendKind::add}, {});
  schedule.append({2, 1, 0, SendKind::add}, {0});
  schedule.append({1, 0, 0, SendKind::copy}, {0, 1});
  schedule.append({1, 2, 0, SendKind::copy}, {1});
  ASSERT_FALSE(verify(schedule).counter_example);
  const SendList sends = sends_of(schedule, 8);
  const auto waits = [&](SendId send) {
    std::vector<SendId> after(sends.after(send).begin(), sends.after(send).end());
    std::sort(after.begin(), after.end());
    return after;
  };
  EXPECT_EQ(sends.bytes(0), 8);
  EXPECT_TRUE(waits(1).empty());
  EXPECT_EQ(waits(2), (std::vector<SendId>{0, 1}));
  EXPECT_EQ(waits(3), (std::vector<SendId>{0, 1}));
}

TEST(TreePlan, SmallMessagesGetFewTreesAndChunks) {
  const Graph mesh = mesh_graph(6, 6, 0, 0, false);
  const TreePlan tiny = choose_trees(mesh, 8, kPodLink);
  EXPECT_EQ(tiny.chunks, 1);
  EXPECT_EQ(tiny.packing.trees.front().depth, 6);
  const TreePlan large = choose_trees(mesh, 1.34e9, kPodLink);
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
}

}  // namespace
}  // namespace bitrift::comm
