#include <cstdlib>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/graph/hamiltonian.h"
#include "comm/model/tree_plan.h"
#include "comm/plan/planner.h"
#include "comm/plan/tree_schedule.h"
#include "comm/plan/trees.h"
#include "comm/verify.h"
#include "interpreter.h"
#include "tests_support.h"

namespace bitrift::comm {
namespace {

using testing::HasSubstr;
using tests::error_of;

constexpr auto& planned = planned_schemes;

// A few chunks a tree, so that runs with numbers take milliseconds.
constexpr Workload small_work{.bytes = 1e5};

// All of them, not a sample: set BITRIFT_COMM_ALL=1.
bool all_wanted() { return std::getenv("BITRIFT_COMM_ALL") != nullptr; }

std::string text_of(const Topology& mesh) { return to_json(mesh).dump(); }

/// What became of one scheme on one mesh after another.
struct Tally {
  int proved = 0, refused = 0, gave_up = 0;
};
using Tallies = std::map<Scheme, Tally>;

void expect_proof(const Schedule& schedule, const std::string& what) {
  const Verdict verdict = verify(schedule);
  ASSERT_FALSE(verdict.counter_example) << what << ": " << verdict.counter_example->text;
  EXPECT_TRUE(verdict.proof.one_order) << what;
}

void plan_all(const Topology& mesh, Tallies& tallies, bool run) {
  if (mesh.live().empty() || mesh.unreachable()) {
    for (const Scheme scheme : planned)
      EXPECT_NE(error_of([&] { (void)plan_schedule(mesh, scheme); }), "") << text_of(mesh);
    return;
  }
  for (const Scheme scheme : planned) {
    Tally& tally = tallies[scheme];
    try {
      const Schedule schedule = plan_schedule(mesh, scheme, small_work);
      ++tally.proved;
      expect_proof(schedule, name_of(scheme) + (" " + text_of(mesh)));
      if (run) {
        EXPECT_EQ(tests::run_often(schedule, 2), "") << name_of(scheme) << text_of(mesh);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what() << text_of(mesh);
      const bool gave_up = std::string_view(error.what()).find("found no ring") != std::string_view::npos;
      EXPECT_FALSE(gave_up && mesh.wrap() == Wrap::neither) << text_of(mesh);
      tally.gave_up += gave_up ? 1 : 0;
      ++tally.refused;
    }
  }
}

/// All meshes of this size with one or two dead chips, or a dead board of 2x2.
std::vector<Topology> failures(int rows, int columns, Wrap wrap) {
  std::vector<Topology> meshes;
  const auto dead = [&](int chip) { return Board{{chip / columns, chip % columns}, 1, 1}; };
  for (int one = 0; one < rows * columns; ++one) {
    meshes.emplace_back(rows, columns, wrap, std::vector{dead(one)}, std::vector<std::pair<Place, Place>>{});
    for (int other = one + 1; other < rows * columns; ++other)
      meshes.emplace_back(rows, columns, wrap, std::vector{dead(one), dead(other)},
                          std::vector<std::pair<Place, Place>>{});
  }
  for (int row = 0; row + 1 < rows; ++row) {
    for (int column = 0; column + 1 < columns; ++column)
      meshes.emplace_back(rows, columns, wrap, std::vector{Board{{row, column}, 2, 2}},
                          std::vector<std::pair<Place, Place>>{});
  }
  return meshes;
}

void show(const Tallies& tallies) {
  if (!all_wanted()) return;
  for (const auto& [scheme, tally] : tallies) {
    fmt::print("{}: {} proved, {} refused, of which {} gave up\n", name_of(scheme), tally.proved,
               tally.refused, tally.gave_up);
  }
}

TEST(Planners, EveryPlanForFailuresOn4x4IsProved) {
  Tallies tallies;
  for (const Topology& mesh : failures(4, 4, Wrap::neither)) plan_all(mesh, tallies, true);
  show(tallies);
  // 16 single chips, 120 pairs, 9 boards; two neighbours of a corner cut it off.
  EXPECT_EQ(tallies[Scheme::forwarding].proved + tallies[Scheme::forwarding].refused, 145 - 4);
  EXPECT_EQ(tallies[Scheme::forwarding].refused, 0);
  EXPECT_EQ(tallies[Scheme::trees].refused, 0);
  EXPECT_EQ(tallies[Scheme::rings_2d].proved, 0);
  EXPECT_EQ(tallies[Scheme::row_pairs].refused, 64 + 3);  // a dead chip in each pair of rows
  EXPECT_GT(tallies[Scheme::ring].proved, 20);
}

TEST(Planners, EveryPlanForFailuresOn5x5IsProved) {
  Tallies tallies;
  for (const Topology& mesh : failures(5, 5, Wrap::neither)) plan_all(mesh, tallies, false);
  show(tallies);
  EXPECT_EQ(tallies[Scheme::forwarding].refused, 0);
  EXPECT_EQ(tallies[Scheme::trees].refused, 0);
  EXPECT_GT(tallies[Scheme::ring].proved, 0);
}

TEST(Planners, EveryPlanForFailuresOnLargerMeshesIsProved) {
  Tallies tallies;
  std::mt19937_64 random(18);
  for (const auto& [rows, columns] : {std::pair(6, 6), {7, 7}, {8, 8}, {4, 8}, {7, 4}}) {
    for (const Wrap wrap : {Wrap::neither, Wrap::rows, Wrap::columns, Wrap::both}) {
      for (const Topology& mesh : failures(rows, columns, wrap)) {
        if (all_wanted() || random() % 800 == 0) plan_all(mesh, tallies, false);
      }
    }
  }
  show(tallies);
  EXPECT_EQ(tallies[Scheme::forwarding].refused, 0);
  EXPECT_EQ(tallies[Scheme::trees].refused, 0);
  EXPECT_GT(tallies[Scheme::row_pairs].proved, 5);
}

TEST(Planners, WholeMeshesOfAllSmallSizesAreServed) {
  for (const Wrap wrap : {Wrap::neither, Wrap::rows, Wrap::columns, Wrap::both}) {
    for (int rows = 1; rows <= 5; ++rows) {
      for (int columns = 1; columns <= 5; ++columns) {
        Tallies tallies;
        plan_all(Topology(rows, columns, wrap, {}, {}), tallies, true);
        EXPECT_EQ(tallies[Scheme::rings_2d].proved, 1);
        EXPECT_EQ(tallies[Scheme::forwarding].proved, 1);
        EXPECT_EQ(tallies[Scheme::trees].proved, 1);
        EXPECT_EQ(tallies[Scheme::row_pairs].proved, rows > 1 ? 1 : 0) << rows << "x" << columns;
      }
    }
  }
}

TEST(Planners, DeadLinksAndScatteredChipsAreProved) {
  std::mt19937_64 random(7);
  Tallies tallies;
  for (int i = 0; i < 60; ++i) {
    const int rows = 2 + static_cast<int>(random() % 5), columns = 2 + static_cast<int>(random() % 5);
    const auto wrap = static_cast<Wrap>(random() % 4);
    const auto links = Topology(rows, columns, wrap, {}, {}).links();
    const auto place = [&](int chip) { return Place{chip / columns, chip % columns}; };
    std::vector<Board> dead;
    std::vector<std::pair<Place, Place>> dead_links;
    for (std::uint64_t k = random() % 3; k > 0; --k)
      dead.push_back({place(static_cast<int>(random() % static_cast<std::uint64_t>(rows * columns))), 1, 1});
    for (std::uint64_t k = random() % 4; k > 0; --k) {
      const auto& [from, to] = links[random() % links.size()];
      dead_links.emplace_back(place(from), place(to));
    }
    plan_all(Topology(rows, columns, wrap, dead, dead_links), tallies, true);
  }
  show(tallies);
  for (const Scheme scheme : planned) EXPECT_GT(tallies[scheme].proved, 1) << name_of(scheme);
}

// Whether a ring exists, by trying all sets of chips that a path can have passed.
bool has_ring(const Topology& mesh) {
  const std::size_t count = mesh.live().size();
  std::map<int, unsigned> number;
  for (unsigned i = 0; i < count; ++i) number[mesh.live()[i]] = i;
  std::vector<std::uint32_t> ends(std::size_t{1} << count,
                                  0);  // where paths from chip 0 through a set can end
  ends[1] = 1;
  for (std::uint32_t set = 1; set < ends.size(); set += 2) {
    for (unsigned i = 0; i < count; ++i) {
      if ((ends[set] >> i & 1U) == 0) continue;
      for (const int next : mesh.neighbours(mesh.live()[i])) {
        const std::uint32_t bit = 1U << number[next];
        if ((set & bit) == 0) ends[set | bit] |= bit;
      }
    }
  }
  for (const int next : mesh.neighbours(mesh.live()[0])) {
    if ((ends.back() >> number[next] & 1U) != 0) return true;
  }
  return false;
}

TEST(Ring, IsFoundOn4x4ExactlyWhereThereIsOne) {
  int rings = 0;
  for (const Wrap wrap : {Wrap::neither, Wrap::rows, Wrap::both}) {
    for (const Topology& mesh : failures(4, 4, wrap)) {
      if (mesh.unreachable()) continue;
      const CycleSearch found = find_cycle(mesh);
      EXPECT_EQ(!found.cycle.empty(), has_ring(mesh)) << text_of(mesh);
      EXPECT_TRUE(!found.cycle.empty() || found.proved) << text_of(mesh);
      rings += found.cycle.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(rings, 50);
}

TEST(Ring, PassesAroundLiveBoards) {
  for (const char* dead : {"2,2,2x2", "0,0,2x2", "4,2,2x4"}) {
    const Topology mesh = topology_from_text({"8x8", "neither", {dead}, {}});
    const CycleSearch found = find_cycle(mesh);
    ASSERT_EQ(found.cycle.size(), mesh.live().size()) << dead;
    for (std::size_t i = 0; i < found.cycle.size(); ++i)
      EXPECT_TRUE(mesh.linked(found.cycle[i], found.cycle[(i + 1) % found.cycle.size()]));
  }
  EXPECT_EQ(find_cycle(topology_from_text({"64x64", "neither", {"2,2,2x2"}, {}})).cycle.size(), 4092U);
}

TEST(Ring, SaysWhyThereIsNone) {
  const auto refusal = [](const TopologyText& text) {
    return error_of([&] { (void)plan_schedule(topology_from_text(text), Scheme::ring); });
  };
  EXPECT_THAT(refusal({"3x3", "neither", {}, {}}), HasSubstr("5 live chips have one colour and 4 the other"));
  EXPECT_THAT(refusal({"4x4", "neither", {"0,1"}, {}}),
              HasSubstr("chip 0 (row 0, column 0) has only one live neighbour"));
  EXPECT_THAT(refusal({"1x4", "neither", {}, {}}), HasSubstr("only one live neighbour"));
  // There is one, but it would have too many sends.
  EXPECT_THAT(refusal({"2x1025", "neither", {}, {}}),
              HasSubstr("2050 live chips need more than 16777216 sends"));
}

TEST(Ring, OnTwelveChipsAroundAHoleLoadsEveryLinkEvenly) {
  const Schedule schedule =
      plan_schedule(topology_from_text({"4x4", "neither", {"1,1,2x2"}, {}}), Scheme::ring);
  const ProofSummary proof = verify(schedule).proof;
  EXPECT_EQ(proof.chips, 12U);
  EXPECT_EQ(schedule.size(), 24U * 2 * 11);
  EXPECT_EQ(proof.directed_links, 24U);
  EXPECT_EQ(proof.busiest_link * 24, schedule.size());
}

TEST(Planners, RefuseWhatTheyCannotServe) {
  const auto refusal = [](const TopologyText& text, Scheme scheme) {
    return error_of([&] { (void)plan_schedule(topology_from_text(text), scheme); });
  };
  EXPECT_THAT(refusal({"4x4", "neither", {"1,1"}, {}}, Scheme::rings_2d),
              HasSubstr("chip 5 (row 1, column 1) is dead"));
  EXPECT_THAT(refusal({"4x4", "neither", {}, {"0,0-0,1"}}, Scheme::rings_2d), HasSubstr("a link is dead"));
  EXPECT_THAT(refusal({"2x3", "neither", {"0,0", "1,2"}, {}}, Scheme::forwarding),
              HasSubstr("every row has a dead chip"));
  EXPECT_THAT(refusal({"4x4", "neither", {"1,1,2x2"}, {}}, Scheme::row_pairs), HasSubstr("no pair of rows"));
  EXPECT_THAT(refusal({"4x4", "neither", {}, {}}, Scheme::other),
              HasSubstr("nothing plans the schedule 'other'"));
  EXPECT_THAT(refusal({"1x3", "neither", {"0,1"}, {}}, Scheme::ring),
              HasSubstr("chip 2 (row 0, column 2) cannot be reached"));
}

TEST(TreeSchedule, RandomTreesAreProvedAndRun) {
  std::mt19937_64 random(3);
  for (const char* size : {"1x1", "1x2", "3x3", "4x4", "2x5"}) {
    const Topology mesh = topology_from_text({size, "rows", {}, {}});
    std::vector<RootedTree> trees(3);
    for (RootedTree& tree : trees) tree.parent = tests::random_tree(mesh, random, tree.root);
    const Schedule schedule = tree_schedule(mesh, trees, 4);
    EXPECT_EQ(schedule.chunks(), 12U);
    EXPECT_EQ(schedule.size(), 12 * 2 * (mesh.live().size() - 1));
    expect_proof(schedule, size);
    EXPECT_EQ(tests::run_often(schedule, 4), "");
  }
}

TEST(Trees, LargerMessagesGetMoreChunks) {
  const Topology mesh = topology_from_text({"4x4", "neither", {"1,1,2x2"}, {}});
  const Schedule small = plan_schedule(mesh, Scheme::trees, {.bytes = 8});
  const Schedule large = plan_schedule(mesh, Scheme::trees, {.bytes = 1.34e9});
  EXPECT_LE(small.chunks(), 8U);
  EXPECT_GE(large.chunks(), 12U * 20);
  expect_proof(small, "small");
  expect_proof(large, "large");
}

// More chunks would not fit: it takes fewer instead of failing.
TEST(Trees, StayWithinTheLimitsOnTheLargestMesh) {
  EXPECT_EQ(most_chunks_of_trees(2), most_pieces);
  EXPECT_EQ(most_chunks_of_trees(1024), most_pieces);
  const auto most = static_cast<std::size_t>(most_chunks_of_trees(most_chips));
  EXPECT_LE(most * 2 * (most_chips - 1), most_sends);
  EXPECT_GT((most + 1) * 2 * (most_chips - 1), most_sends);
}

TEST(TreeSchedule, OverlapsChunksAndDirections) {
  // A line rooted at its end: chunk 1 leaves the far end before chunk 0 has reached the root.
  const Topology mesh = topology_from_text({"1x4", "neither", {}, {}});
  const Schedule schedule = tree_schedule(mesh, std::vector<RootedTree>{{0, {-1, 0, 1, 2}}}, 4);
  const auto& sends = schedule.sends();
  const auto at = [&](const Send& send) { return std::ranges::find(sends, send) - sends.begin(); };
  EXPECT_LT(at({3, 2, 1, SendKind::add}), at({1, 0, 0, SendKind::add}));
  EXPECT_LT(at({3, 2, 3, SendKind::add}), at({0, 1, 1, SendKind::copy}));
  EXPECT_EQ(verify(schedule).proof.steps, 6U);
}

TEST(TreeSchedule, RefusesWhatIsNoSpanningTree) {
  const Topology mesh = topology_from_text({"2x2", "neither", {"1,1"}, {}});
  const auto refusal = [&](const RootedTree& tree) {
    return error_of([&] { (void)tree_schedule(mesh, std::vector{tree}, 1); });
  };
  EXPECT_EQ(refusal({0, {-1, 0, 0, -1}}), "");
  EXPECT_THAT(refusal({0, {-1, 0, 0}}), HasSubstr("tree 0: expected a live root"));
  EXPECT_THAT(refusal({3, {-1, 0, 0, -1}}), HasSubstr("expected a live root"));
  EXPECT_THAT(refusal({4, {-1, 0, 0, -1}}), HasSubstr("expected a live root"));
  EXPECT_THAT(refusal({0, {1, 0, 0, -1}}), HasSubstr("expected a live root"));
  EXPECT_THAT(refusal({0, {-1, 0, -1, -1}}),
              HasSubstr("chip 2 (row 1, column 0) has no parent over a live link"));
  EXPECT_THAT(refusal({0, {-1, 0, 1, -1}}),
              HasSubstr("chip 2 (row 1, column 0) has no parent over a live link"));
  EXPECT_THAT(refusal({0, {-1, 0, 0, 1}}), HasSubstr("chip 3 (row 1, column 1) is dead and has a parent"));
  EXPECT_THAT(error_of([&] { (void)tree_schedule(mesh, {}, 1); }), HasSubstr("needs a tree"));
  const Topology line = topology_from_text({"1x3", "neither", {}, {}});
  EXPECT_THAT(error_of([&] {
                (void)tree_schedule(line, std::vector<RootedTree>{{0, {-1, 2, 1}}}, 1);
              }),
              HasSubstr("reaches 1 of 3 live chips"));
  EXPECT_THAT(error_of([&] {
                (void)tree_schedule(line, std::vector<RootedTree>{{0, {-1, 0, 1}}}, most_chunks + 1);
              }),
              HasSubstr("are possible"));
}

}  // namespace
}  // namespace bitrift::comm
