#include "comm/verify.h"

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "comm/plan/tree_schedule.h"
#include "interpreter.h"
#include "tests_support.h"

namespace bitrift::comm {
namespace {

using testing::HasSubstr;

constexpr SendKind add = SendKind::add;
constexpr SendKind copy = SendKind::copy;

struct Row {
  Send send;
  std::vector<std::uint32_t> after = {};
};

Schedule on(const TopologyText& text, const std::vector<Row>& rows, std::uint32_t chunks = 1) {
  Schedule schedule(topology_from_text(text), Scheme::other, chunks);
  for (const Row& row : rows) schedule.append(row.send, row.after);
  return schedule;
}
Schedule line(const std::vector<Row>& rows) { return on({"1x3", "neither", {}, {}}, rows); }

// The counter-example, as "FLAW: text".
std::string flaw_of(const Schedule& schedule) {
  const Verdict verdict = verify(schedule);
  if (!verdict.counter_example) return "";
  return std::string(name_of(verdict.counter_example->flaw)) + ": " + verdict.counter_example->text;
}

const std::vector<Row> good_line{
    {{0, 1, 0, add}}, {{2, 1, 0, add}, {0}}, {{1, 0, 0, copy}, {1}}, {{1, 2, 0, copy}, {1}}};

TEST(Verify, AcceptsALineAddedUpInItsMiddle) {
  const Verdict verdict = verify(line(good_line));
  EXPECT_FALSE(verdict.counter_example);
  EXPECT_EQ(verdict.proof.chips, 3U);
  EXPECT_EQ(verdict.proof.sends, 4U);
  EXPECT_EQ(verdict.proof.steps, 3U);
  EXPECT_EQ(verdict.proof.busiest_link, 1U);
  EXPECT_EQ(verdict.proof.directed_links, 4U);
  EXPECT_TRUE(verdict.proof.one_order);
}

TEST(Verify, OneLiveChipNeedsNoSend) {
  EXPECT_EQ(flaw_of(on({"1x2", "neither", {"0,0"}, {}}, {})), "");
  EXPECT_THAT(flaw_of(on({"1x2", "neither", {}, {}}, {})),
              HasSubstr("missing: chunk 0 at chip 0 (row 0, column 0): at the end, the gradient of chip 1"));
}

TEST(Verify, ListOrderDoesNotMatter) {
  EXPECT_EQ(flaw_of(line(
                {{{1, 2, 0, copy}, {2}}, {{0, 1, 0, add}}, {{2, 1, 0, add}, {1}}, {{1, 0, 0, copy}, {2}}})),
            "");
}

TEST(Verify, NamesDeadChipsAndLinks) {
  EXPECT_THAT(
      flaw_of(on({"2x2", "neither", {"0,0"}, {}}, {{{1, 3, 0, add}}, {{0, 1, 0, add}}})),
      HasSubstr("dead-chip: send 1 (chip 0 to chip 1, chunk 0, add): chip 0 (row 0, column 0) is dead"));
  EXPECT_THAT(flaw_of(on({"2x2", "neither", {}, {"0,0-0,1"}}, {{{1, 0, 0, add}}})),
              HasSubstr("no-link: send 0 (chip 1 to chip 0"));
  EXPECT_THAT(flaw_of(line({{{0, 2, 0, add}}})), HasSubstr("no-link: "));
}

TEST(Verify, NamesAWaitThatNeitherChipCanSee) {
  EXPECT_THAT(flaw_of(on({"1x4", "neither", {}, {}}, {{{0, 1, 0, add}}, {{3, 2, 0, add}, {0}}})),
              HasSubstr("unseen-wait: send 1 (chip 3 to chip 2, chunk 0, add) waits for send 0"));
}

TEST(Verify, NamesTheSendsOfACycle) {
  auto rows = good_line;
  rows[0].after = {2};
  EXPECT_THAT(flaw_of(line(rows)),
              HasSubstr("cycle: send 0 (chip 0 to chip 1, chunk 0, add) waits for send 2, "
                        "which waits for send 1, which waits for send 0"));
  rows[0].after = {0};
  EXPECT_THAT(flaw_of(line(rows)),
              HasSubstr("cycle: send 0 (chip 0 to chip 1, chunk 0, add) waits for send 0"));
}

TEST(Verify, NamesAReadThatNothingOrders) {
  auto rows = good_line;
  rows[3].after = {0};  // may leave before the last gradient arrived
  EXPECT_THAT(flaw_of(line(rows)),
              HasSubstr("race: chunk 0 at chip 1 (row 0, column 1): send 1 (chip 2 to chip 1, "
                        "chunk 0, add) writes it, send 3 (chip 1 to chip 2, chunk 0, copy) reads it"));
}

TEST(Verify, TwoAdditionsInAnyOrderAreARace) {
  auto rows = good_line;
  rows[1].after = {};
  rows[2].after = rows[3].after = {0, 1};
  EXPECT_THAT(flaw_of(line(rows)), HasSubstr("race: "));
  EXPECT_EQ(tests::run_often(line(rows), 50),
            "");  // the sum of integers is the same, bits of floats may not be
}

TEST(Verify, ABufferThatIsStillNeededIsNotOverwritten) {
  std::vector<Row> rows{{{1, 0, 0, add}}, {{2, 1, 0, copy}}};
  EXPECT_THAT(flaw_of(line(rows)),
              HasSubstr("race: chunk 0 at chip 1 (row 0, column 1): send 0 (chip 1 to chip 0, "
                        "chunk 0, add) reads it, send 1 (chip 2 to chip 1, chunk 0, copy) writes it"));
  rows[1].after = {0};
  EXPECT_THAT(flaw_of(line(rows)), HasSubstr("missing: "));
}

TEST(Verify, WaitsOrderThroughOtherChips) {
  // Chip 0's copy does not name its own send, and comes after it all the same: it carries the sum.
  const std::vector<Row> rows{
      {{0, 1, 0, add}}, {{1, 2, 0, add}, {0}}, {{2, 1, 0, copy}, {1}}, {{1, 0, 0, copy}, {2}}};
  EXPECT_EQ(flaw_of(line(rows)), "");
  EXPECT_EQ(tests::run_often(line(rows), 50), "");
}

TEST(Verify, ASendersEndSaysNothingAboutTheReceiver) {
  // Send 1 waits for send 0 at their common source only, and may arrive first at another chip; that is not
  // a race. But send 3 waits at chip 1 only for what chip 1 did: it read, and chip 2 may not have written
  // yet.
  const std::vector<Row> rows{{{0, 1, 0, add}},
                              {{1, 2, 0, add}, {0}},
                              {{2, 1, 0, copy}, {1}},
                              {{1, 0, 0, copy}, {1, 2}},
                              {{1, 2, 0, copy}, {1}}};
  EXPECT_THAT(flaw_of(line(rows)), HasSubstr("race: "));
}

TEST(Verify, NamesAMissingAndARepeatedGradient) {
  auto rows = good_line;
  rows[0].send.kind = copy;
  EXPECT_THAT(flaw_of(line(rows)),
              HasSubstr("missing: chunk 0 at chip 0 (row 0, column 0): at the end, the gradient "
                        "of chip 1 (row 0, column 1) is not in it"));
  rows = good_line;
  rows.insert(rows.begin() + 1, Row{{0, 1, 0, add}, {0}});
  rows[2].after = {1};
  rows[3].after = rows[4].after = {2};
  EXPECT_THAT(flaw_of(line(rows)), HasSubstr("repeated: chunk 0 at chip 0 (row 0, column 0): at the end, the "
                                             "gradient of chip 0 (row 0, column 0) is in it more than once"));
}

TEST(Verify, EveryChunkIsProved) {
  EXPECT_THAT(flaw_of(on({"1x3", "neither", {}, {}}, good_line, 2)), HasSubstr("missing: chunk 1 at"));
}

TEST(Verify, AnExchangeWithoutRoomForWhatArrivesIsACycle) {
  // Each chip reads before it writes, so with room for two messages all three would end.
  const std::vector<Row> shift{{{0, 1, 0, add}, {2}}, {{2, 0, 0, add}, {0}}, {{1, 2, 0, add}, {1}}};
  EXPECT_THAT(flaw_of(on({"1x3", "rows", {}, {}}, shift)), HasSubstr("cycle: "));
}

// Three pairs of chips hold the same sums, a, b and c.
const std::vector<Row> three_pairs{{{3, 0, 0, add}},       {{0, 3, 0, copy}, {0}}, {{4, 1, 0, add}},
                                   {{1, 4, 0, copy}, {2}}, {{5, 2, 0, add}},       {{2, 5, 0, copy}, {4}}};

TEST(Verify, SumsInDifferentOrdersAreSeen) {
  auto rows = three_pairs;
  for (const Row& row : std::vector<Row>{{{0, 1, 0, add}, {0, 3}},      // (a + b)
                                         {{1, 2, 0, add}, {5, 6}},      // (a + b) + c
                                         {{2, 1, 0, copy}, {7}},        //
                                         {{1, 0, 0, copy}, {1, 6, 8}},  //
                                         {{5, 4, 0, add}, {3, 5}},      // (b + c)
                                         {{4, 3, 0, add}, {1, 10}},     // a + (b + c)
                                         {{3, 4, 0, copy}, {11}},
                                         {{4, 5, 0, copy}, {10, 12}}})
    rows.push_back(row);
  const Verdict verdict = verify(on({"2x3", "neither", {}, {}}, rows));
  EXPECT_FALSE(verdict.counter_example) << verdict.counter_example->text;
  EXPECT_FALSE(verdict.proof.one_order);
}

TEST(Verify, TheSidesOfAnAdditionDoNotMatter) {
  // Both chips of a pair add the same two sums.
  const std::vector<Row> rows{
      {{0, 1, 0, add}},         {{1, 0, 0, copy}, {0}},  // 0 and 1 hold a
      {{2, 3, 0, add}},         {{3, 2, 0, copy}, {2}},  // 2 and 3 hold b
      {{0, 2, 0, add}, {1, 3}}, {{2, 0, 0, copy}, {4}},  // b + a
      {{3, 1, 0, add}, {1, 3}}, {{1, 3, 0, copy}, {6}},  // a + b
  };
  const Verdict verdict = verify(on({"2x2", "neither", {}, {}}, rows));
  EXPECT_FALSE(verdict.counter_example) << verdict.counter_example->text;
  EXPECT_TRUE(verdict.proof.one_order);
}

TEST(Verify, RefusesAScheduleThatIsNotSound) {
  EXPECT_THAT(tests::error_of([] {
                (void)verify(line({{{0, 3, 0, add}}}));
              }),
              HasSubstr("expected two different chips"));
  EXPECT_THAT(tests::error_of([] {
                (void)verify(line({{{0, 1, 0, add}, {7}}}));
              }),
              HasSubstr("waits for send 7"));
}

TEST(Verify, LargeMeshesTakeSeconds) {
  const Topology mesh = topology_from_text({"32x32", "neither", {"4,4,2x2"}, {}});
  const bool all = std::getenv("BITRIFT_COMM_ALL") != nullptr;  // 6.3 million sends
  const std::uint32_t chunks = all ? 64 : 8;
  std::mt19937_64 random(1);
  std::vector<RootedTree> trees(all ? 48 : 8);
  for (RootedTree& tree : trees) tree.parent = tests::random_tree(mesh, random, tree.root);
  const Schedule schedule = tree_schedule(mesh, trees, chunks);
  EXPECT_EQ(schedule.size(), trees.size() * chunks * 2 * 1019);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(flaw_of(schedule), "");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), all ? 60 : 20);
  RecordProperty("milliseconds", static_cast<int>(1000 * seconds.count()));
}

}  // namespace
}  // namespace bitrift::comm
