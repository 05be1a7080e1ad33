// The model against what is known of rings.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/model/link_model.h"
#include "comm/model/schedule_sends.h"
#include "comm/plan/ring.h"
#include "comm/plan/trees.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

// An allreduce around a logical ring. hops: for each member, the chips on the way to the next one, both
// included. Each member's share of the bytes, cut into pieces, travels around twice, less two hops: as a
// growing sum, then as a copy.
void add_ring(SendList& sends, const std::vector<std::vector<int>>& hops, double bytes, int pieces) {
  const std::size_t members = hops.size();
  for (int piece = 0; piece < pieces; ++piece)
    for (std::size_t first = 0; first < members; ++first) {
      std::vector<SendId> before;
      for (std::size_t step = 0; step < 2 * (members - 1); ++step) {
        const std::vector<int>& way = hops[(first + step) % members];
        for (std::size_t i = 0; i + 1 < way.size(); ++i)
          before = {sends.add(way[i], way[i + 1], bytes / static_cast<double>(members) / pieces, before)};
      }
    }
}

Graph line_of(int chips) { return mesh_graph(1, chips, 0, 0, false); }
Graph ring_of(int chips) { return mesh_graph(1, chips, 0, 0, true); }

constexpr int kChips = 16;
constexpr LinkCost kFast = {.bandwidth = 1, .latency = 0, .overhead = 0};

// Both directions of a ring at once: S (n - 1) / (n B).
double two_rings(const LinkCost& cost) {
  std::vector<std::vector<int>> right, left;
  for (int i = 0; i < kChips; ++i) {
    right.push_back({i, (i + 1) % kChips});
    left.push_back({(kChips - i) % kChips, kChips - i - 1});
  }
  SendList sends;
  add_ring(sends, right, 0.5, 1);
  add_ring(sends, left, 0.5, 1);
  return simulate(ring_of(kChips), cost, sends, LinkOrder::arrival).finish;
}

// Published for a pod of 1,024 TPU-v3 chips: 340 TB/s. Assumed: 83 GB/s in each direction of a link.
TEST(LinkModel, APodOf1024ChipsHas340TerabytesPerSecond) {
  const auto directions = static_cast<double>(Topology(32, 32, Wrap::both, {}, {}).links().size());
  EXPECT_EQ(directions, 1024.0 * 4);
  EXPECT_NEAR(directions * 83e9, 340e12, 0.1e12);
}

TEST(LinkModel, ARingTakesTwiceItsStepsTimesAShare) {
  EXPECT_NEAR(two_rings(kFast), 15.0 / 16, 1e-12);
  // 30 steps, each with its latency and overhead.
  EXPECT_NEAR(two_rings({.bandwidth = 1, .latency = 0.25, .overhead = 0.5}), 15.0 / 16 + 30 * 0.75, 1e-9);
}

// With one dead link, a ring folded onto the line that is left (0, 2, 4, ..., 5, 3, 1) needs both directions.
TEST(LinkModel, ARingWithADeadLinkHasHalfItsBandwidth) {
  std::vector<std::vector<int>> folded;
  for (int i = 0; i + 2 < kChips; i += 2) folded.push_back({i, i + 1, i + 2});
  folded.push_back({kChips - 2, kChips - 1});
  for (int i = kChips - 1; i > 2; i -= 2) folded.push_back({i, i - 1, i - 2});
  folded.push_back({1, 0});
  ASSERT_EQ(folded.size(), static_cast<std::size_t>(kChips));
  SendList sends;
  add_ring(sends, folded, 1, 16);
  const LinkTimes times = simulate(line_of(kChips), kFast, sends, LinkOrder::arrival);
  for (const double busy : times.forward) EXPECT_NEAR(busy, 2 * 15.0 / 16, 1e-9);
  EXPECT_GE(times.finish, 2 * two_rings(kFast));
  EXPECT_LE(times.finish, 2.2 * two_rings(kFast));
}

// Trees lose next to nothing there: tau is 16/15 for the ring and 1 for the line.
TEST(LinkModel, ATreeOnTheLineIsNearlyAsFastAsTheRing) {
  const Schedule trees = plan_trees(Topology(1, kChips, Wrap::neither, {}, {}), {.bytes = 1, .cost = kFast});
  EXPECT_LE(simulate(line_of(kChips), kFast, sends_of(trees, 1), LinkOrder::priority).finish,
            1.1 * two_rings(kFast));
}

// The planned ring has one chunk for each chip and direction, like the one above.
TEST(LinkModel, ThePlannedRingTakesTheSameTime) {
  const Schedule ring = plan_ring(Topology(1, kChips, Wrap::rows, {}, {}));
  for (const LinkCost& cost : {kFast, LinkCost{.bandwidth = 1, .latency = 0.25, .overhead = 0.5}})
    EXPECT_NEAR(simulate(ring_of(kChips), cost, sends_of(ring, 1), LinkOrder::priority).finish,
                two_rings(cost), 1e-9);
}

}  // namespace
}  // namespace bitrift::comm
