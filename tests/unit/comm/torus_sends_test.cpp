// Swing (NSDI 2024) against other algorithms on whole tori, in the model of the links.
#include "unit/comm/torus_sends.h"

#include <set>

#include <gtest/gtest.h>

#include "comm/graph/topology_graph.h"
#include "comm/model/link_model.h"
#include "unit/comm/torus_model.h"

namespace bitrift::comm {
namespace {

LinkTimes times_of(const Torus& torus, const LinkCost& cost, const SendList& sends) {
  const Graph graph = graph_of(Topology(torus.side(0), torus.side(1), Wrap::both, {}, {}));
  return simulate(graph, cost, sends, LinkOrder::arrival);
}

SendList swing_sends(const Torus& torus, double bytes, bool halving) {
  SendList sends;
  add_swing(sends, torus, bytes, halving, 8, 4096);
  return sends;
}

SendList bucket_sends(const Torus& torus, double bytes) {
  SendList sends;
  add_bucket(sends, torus, bytes);
  return sends;
}

int partner_of(const Torus& torus, int chip, const TorusStep& step) { return torus.path(chip, step).back(); }

// Every chip ends with every gradient once: in each step, what two partners have is disjoint.
void expect_allreduce(const Torus& torus, const Collective& steps) {
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
  for (const Torus& torus : {Torus(4, 4), Torus(8, 8), Torus(16, 16), Torus(16, 4), Torus(2, 8)}) {
    for (const int first : {0, 1})
      for (const bool mirrored : {false, true}) {
        Collective steps = swing_steps(torus, 1, first, mirrored, true);
        expect_allreduce(torus, steps);
        // The same backwards: what is reached from a chip by the last steps is what it needs half of at
        // first.
        std::reverse(steps.begin(), steps.end());
        expect_allreduce(torus, steps);
      }
    expect_allreduce(torus, doubling_steps(torus, 1, true));
  }
}

// Swing's messages share links with others, which an algorithm with neighbours only does not need: each link
// carries the sum of distance / 2^(s + 1) over the steps s, 1.2 times as much on a large torus.
TEST(TorusSends, SwingLoadsEveryLinkByAFifthMoreThanTheBucketAlgorithm) {
  const LinkCost fast = {.bandwidth = 1, .latency = 0, .overhead = 0};
  for (const int side : {8, 32}) {
    const Torus torus(side, side);
    double expected = 0, share = 1;
    for (const TorusStep& step : swing_steps(torus, 1, 0, false, true))
      expected += std::abs(step.distance) * (share /= 2);
    const LinkTimes swing = times_of(torus, fast, swing_sends(torus, 4, true));
    const LinkTimes bucket = times_of(torus, fast, bucket_sends(torus, 4));
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
  const Torus torus(16, 16);
  const LinkCost pod = {.bandwidth = 83e9, .latency = 1e-6, .overhead = 1e-7};
  const auto gain = [&](double bytes) {
    return times_of(torus, pod, bucket_sends(torus, bytes)).finish /
           times_of(torus, pod, swing_sends(torus, bytes, true)).finish;
  };
  EXPECT_GT(gain(32), 1.3);
  EXPECT_LT(gain(134e6), 1);
  const double small = times_of(torus, pod, swing_sends(torus, 32, false)).finish;
  EXPECT_LT(small, 0.7 * times_of(torus, pod, swing_sends(torus, 32, true)).finish);
}

// The paper's simulator is of packets, ours of messages; 32 bytes are one packet. The paper prints one to
// three digits.
TEST(TorusSends, TakeThePublishedTimesOfSwing) {
  for (const PublishedTimes& paper : published_times()) {
    if (paper.torus.chips() > 1024) continue;  // bench_swing published
    SCOPED_TRACE(testing::Message() << paper.torus.side(0) << "x" << paper.torus.side(1));
    const TorusTimes model = TorusModel(paper.torus, kSwingPaper).times(32);
    EXPECT_NEAR(model.swing * 1e6, paper.swing, 0.01 * paper.swing);
    EXPECT_NEAR(model.doubling * 1e6, paper.doubling, 0.02 * paper.doubling);
    EXPECT_NEAR(model.bucket * 1e6, paper.bucket, 0.02 * paper.bucket);
    EXPECT_NEAR(model.ring * 1e6, paper.ring, 0.08 * paper.ring);
  }
}

// "Up to 3x on the 128x8 and 256x4 torus" (Section 5.2).
TEST(TorusSends, SwingGainsOnLongToriWhatWasPublished) {
  EXPECT_NEAR(TorusModel({128, 8}, kSwingPaper).times(8 << 20).gain(), 3, 0.1);
  EXPECT_NEAR(TorusModel({256, 4}, kSwingPaper).times(8 << 20).gain(), 3, 0.3);
}

}  // namespace
}  // namespace bitrift::comm
