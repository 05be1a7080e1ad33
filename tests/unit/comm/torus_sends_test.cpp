// Swing (NSDI 2024) against other algorithms on whole tori, in the model of the links.
#include "torus_sends.h"

#include <set>

#include <gtest/gtest.h>

#include "comm/graph/topology_graph.h"
#include "comm/model/link_model.h"

namespace bitrift::comm {
namespace {

Graph torus_graph(int side) { return graph_of(Topology(side, side, Wrap::both, {}, {})); }

LinkTimes times_of(int side, const LinkCost& cost, const SendList& sends) {
  return simulate(torus_graph(side), cost, sends, LinkOrder::arrival);
}

SendList swing_sends(int side, double bytes, bool halving) {
  SendList sends;
  add_on_all_ports(sends, SquareTorus(side), bytes, 8, 4096, [&](double share, int first, bool mirrored) {
    const Collective steps = swing_steps(side, share, first, mirrored, halving);
    return halving ? and_back(steps) : steps;
  });
  return sends;
}

SendList bucket_sends(int side, double bytes) {
  SendList sends;
  add_on_all_ports(sends, SquareTorus(side), bytes, 1, 1, [&](double share, int first, bool mirrored) {
    return and_back(bucket_steps(side, share, first, mirrored));
  });
  return sends;
}

int partner_of(const SquareTorus& torus, int chip, const TorusStep& step) {
  return torus.path(chip, step).back();
}

// Every chip ends with every gradient once: in each step, what two partners have is disjoint.
void expect_allreduce(const SquareTorus& torus, const Collective& steps) {
  std::vector<std::set<int>> held(static_cast<std::size_t>(torus.chips()));
  for (int chip = 0; chip < torus.chips(); ++chip) held[static_cast<std::size_t>(chip)] = {chip};
  for (const TorusStep& step : steps) {
    const auto before = held;
    for (int chip = 0; chip < torus.chips(); ++chip) {
      const int partner = partner_of(torus, chip, step);
      ASSERT_EQ(partner_of(torus, partner, step), chip);
      for (const int one : before[static_cast<std::size_t>(partner)])
        ASSERT_TRUE(held[static_cast<std::size_t>(chip)].insert(one).second);
    }
  }
  for (const auto& one : held) EXPECT_EQ(one.size(), held.size());
}

TEST(TorusSends, PartnersOfSwingAndRecursiveDoublingExchangeEverythingOnce) {
  EXPECT_EQ(swing_distance(0), 1);
  EXPECT_EQ(swing_distance(1), -1);
  EXPECT_EQ(swing_distance(2), 3);
  EXPECT_EQ(swing_distance(3), -5);
  EXPECT_EQ(swing_distance(4), 11);
  for (const int side : {4, 8, 16}) {
    const SquareTorus torus(side);
    for (const int first : {0, 1})
      for (const bool mirrored : {false, true}) {
        Collective steps = swing_steps(side, 1, first, mirrored, true);
        expect_allreduce(torus, steps);
        // The same backwards: what is reached from a chip by the last steps is what it needs half of at
        // first.
        std::reverse(steps.begin(), steps.end());
        expect_allreduce(torus, steps);
      }
    expect_allreduce(torus, doubling_steps(side, 1, true));
  }
}

// Swing's messages share links with others, which an algorithm with neighbours only does not need: each link
// carries the sum of distance / 2^(s + 1) over the steps s, 1.2 times as much on a large torus.
TEST(TorusSends, SwingLoadsEveryLinkByAFifthMoreThanTheBucketAlgorithm) {
  const LinkCost fast = {.bandwidth = 1, .latency = 0, .overhead = 0};
  for (const int side : {8, 32}) {
    double expected = 0, share = 1;
    for (const TorusStep& step : swing_steps(side, 1, 0, false, true))
      expected += std::abs(step.distance) * (share /= 2);
    const LinkTimes swing = times_of(side, fast, swing_sends(side, 4, true));
    const LinkTimes bucket = times_of(side, fast, bucket_sends(side, 4));
    const double chips = side * side;
    for (const auto* busy : {&swing.forward, &swing.backward})
      for (const double one : *busy) ASSERT_NEAR(one, 2 * expected, 1e-9);
    for (const auto* busy : {&bucket.forward, &bucket.backward})
      for (const double one : *busy) ASSERT_NEAR(one, 2 * (1 - 1 / chips), 1e-9);
    EXPECT_NEAR(bucket.finish, 2 * (1 - 1 / chips), 1e-9);  // no link is ever idle
    EXPECT_GT(expected, side == 8 ? 1.07 : 1.16);
    EXPECT_LT(expected, 1.2);
  }
}

// With a latency, the 4 (side - 1) steps of the bucket algorithm cost more than Swing's 4 log2(side), until
// the message is large.
TEST(TorusSends, SwingIsFasterForSmallMessagesAndTheBucketAlgorithmForLargeOnes) {
  constexpr int side = 16;
  const LinkCost pod = {.bandwidth = 83e9, .latency = 1e-6, .overhead = 1e-7};
  const auto gain = [&](double bytes) {
    return times_of(side, pod, bucket_sends(side, bytes)).finish /
           times_of(side, pod, swing_sends(side, bytes, true)).finish;
  };
  EXPECT_GT(gain(32), 1.3);
  EXPECT_LT(gain(134e6), 1);
  const double small = times_of(side, pod, swing_sends(side, 32, false)).finish;
  EXPECT_LT(small, 0.7 * times_of(side, pod, swing_sends(side, 32, true)).finish);
}

}  // namespace
}  // namespace bitrift::comm
