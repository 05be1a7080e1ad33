// Runs under mpirun with 16 ranks; smaller meshes run on the first of them.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "comm/plan/tree_schedule.h"
#include "comm/verify.h"
#include "mesh_world.h"
#include "mpi/mesh_allreduce.h"
#include "mpi/ordered_sum.h"
#include "serial_schedule.h"
#include "unit/comm/interpreter.h"

namespace bitrift::mpi {
namespace {

template <typename T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}

/// Every time the result is as a serial run makes it, on every rank.
template <typename T>
void add_and_compare(const Communicator& ranks, const comm::Schedule& plan,
                     const std::shared_ptr<const LocalSchedule>& mine, std::size_t count, int rounds) {
  const auto chips = static_cast<std::size_t>(ranks.size()), me = static_cast<std::size_t>(ranks.rank());
  const auto given = arrays_of<T>(chips, count, plan.chunks());
  auto expected = given;
  std::mt19937_64 random(count);
  tests::run_serially(plan, expected, random);
  for (const auto& array : expected) ASSERT_TRUE(same_bits(array, expected[0]));
  if constexpr (std::is_integral_v<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      T sum = 0;
      for (const auto& array : given) sum += array[i];
      ASSERT_EQ(sum, expected[0][i]);
    }
  }
  std::vector<T> array = given[me];
  MeshAllreduce<T> sum(ranks, mine, array.data(), count, 7);
  for (int round = 0; round < rounds; ++round) {
    array = given[me];
    sum.start();
    if (round == 1) {
      while (!sum.advance()) continue;
    }
    sum.wait();
    ASSERT_TRUE(same_bits(array, expected[0])) << count << " elements, round " << round;
  }
}

/// Proves a schedule and runs it with arrays of all types and of many sizes.
void prove_and_run(const Communicator& ranks, const comm::Schedule& plan) {
  const comm::Verdict verdict = comm::verify(plan);
  ASSERT_FALSE(verdict.counter_example) << verdict.counter_example->text;
  ASSERT_TRUE(verdict.proof.one_order);
  const auto mine = std::make_shared<const LocalSchedule>(plan, ranks.rank());
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, plan.chunks() - std::size_t{1}, std::size_t{plan.chunks()}}) {
    add_and_compare<float>(ranks, plan, mine, count, 1);
    add_and_compare<std::int64_t>(ranks, plan, mine, count, 1);
  }
  add_and_compare<float>(ranks, plan, mine, 10'007, 3);
  add_and_compare<double>(ranks, plan, mine, 10'007, 3);
  add_and_compare<std::int32_t>(ranks, plan, mine, 10'007, 1);
  add_and_compare<std::int64_t>(ranks, plan, mine, 10'007, 2);
}

std::vector<comm::Topology> meshes() {
  std::vector<comm::Topology> all;
  for (const auto& text : std::vector<comm::TopologyText>{{"1x1", "neither", {}, {}},
                                                          {"1x2", "neither", {}, {}},
                                                          {"2x2", "neither", {}, {}},
                                                          {"2x2", "neither", {"0,1"}, {}},
                                                          {"3x3", "neither", {}, {}},
                                                          {"3x3", "neither", {"1,1"}, {}},
                                                          {"3x3", "both", {}, {"0,0-0,1"}},
                                                          {"4x4", "neither", {}, {}},
                                                          {"4x4", "both", {}, {}},
                                                          {"4x4", "neither", {"1,1,2x2"}, {}},
                                                          {"4x4", "neither", {"0,0"}, {}},
                                                          {"4x4", "rows", {"2,1", "3,3"}, {}}})
    all.push_back(comm::topology_from_text(text));
  return all;
}

/// Every scheme that serves a mesh, and three random trees with five chunks each.
std::vector<comm::Schedule> plans(const comm::Topology& mesh) {
  std::vector<comm::Schedule> all;
  for (const auto scheme :
       {comm::Scheme::ring, comm::Scheme::rings_2d, comm::Scheme::row_pairs, comm::Scheme::forwarding}) {
    try {
      all.push_back(comm::plan_schedule(mesh, scheme));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    }
  }
  std::mt19937_64 random(static_cast<std::uint64_t>(mesh.chips()) + mesh.live().size());
  std::vector<comm::RootedTree> trees(3);
  for (comm::RootedTree& tree : trees) tree.parent = tests::random_tree(mesh, random, tree.root);
  all.push_back(comm::tree_schedule(mesh, trees, 5));
  return all;
}

TEST(MeshAllreduce, RunsPackedTreesToTheBit) {
  for (const comm::Topology& mesh : meshes()) {
    const auto ranks = ranks_of(mesh);
    SCOPED_TRACE(to_json(mesh).dump());
    if (ranks) prove_and_run(*ranks, comm::plan_schedule(mesh, comm::Scheme::trees, {.bytes = 40'028}));
  }
}

TEST(MeshAllreduce, EqualsASerialRunToTheBit) {
  std::map<comm::Scheme, int> served;
  for (const comm::Topology& mesh : meshes()) {
    const auto ranks = ranks_of(mesh);
    for (const comm::Schedule& plan : plans(mesh)) {
      ++served[plan.scheme()];
      SCOPED_TRACE(name_of(plan.scheme()) + (" on " + to_json(mesh).dump()));
      if (ranks) prove_and_run(*ranks, plan);
    }
  }
  EXPECT_EQ(served[comm::Scheme::trees], 12);
  for (const auto scheme :
       {comm::Scheme::ring, comm::Scheme::rings_2d, comm::Scheme::row_pairs, comm::Scheme::forwarding})
    EXPECT_GE(served[scheme], 4) << name_of(scheme);
}

// So long that a send is complete only when the other rank has taken its data.
TEST(MeshAllreduce, EqualsASerialRunOnLongArraysToo) {
  const comm::Topology mesh = comm::topology_from_text({"3x3", "neither", {"1,1"}, {}});
  const auto ranks = ranks_of(mesh);
  if (!ranks) return;
  for (const comm::Schedule& plan : plans(mesh)) {
    SCOPED_TRACE(name_of(plan.scheme()));
    add_and_compare<double>(*ranks, plan, std::make_shared<const LocalSchedule>(plan, ranks->rank()), 300'007,
                            3);
  }
}

TEST(MeshAllreduce, TheComparedArraysTellOrdersApart) {
  const auto given = arrays_of<float>(12, 1000, 1);
  int differ = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    float ascending = 0, descending = 0;
    for (std::size_t r = 0; r < 12; ++r) {
      ascending += given[r][i];
      descending += given[11 - r][i];
    }
    differ += ascending == descending ? 0 : 1;
  }
  EXPECT_GT(differ, 100);
}

TEST(MeshAllreduce, TheOrderOfTheListDoesNotMatter) {
  const comm::Topology mesh = comm::topology_from_text({"3x3", "neither", {"0,2"}, {}});
  const auto ranks = ranks_of(mesh);
  std::mt19937_64 random(mesh.live().size());
  for (const comm::Schedule& plan : plans(mesh)) {
    for (int i = 0; i < 3; ++i) {
      const comm::Schedule other = tests::shuffled(plan, random);
      if (ranks) prove_and_run(*ranks, other);
    }
  }
}

// Chip 1 adds both ends of a line in an order that nothing fixes. This never reaches MPI: the proof refuses.
TEST(MeshAllreduce, AnOpenOrderOfAdditionsIsRefusedByTheProof) {
  const comm::Topology line = comm::topology_from_text({"1x3", "neither", {}, {}});
  comm::Schedule plan(line, comm::Scheme::other, 1);
  plan.append({0, 1, 0, comm::SendKind::add}, {});
  plan.append({2, 1, 0, comm::SendKind::add}, {});
  plan.append({1, 0, 0, comm::SendKind::copy}, {0, 1});
  plan.append({1, 2, 0, comm::SendKind::copy}, {0, 1});
  const comm::Verdict verdict = comm::verify(plan);
  ASSERT_TRUE(verdict.counter_example);
  EXPECT_EQ(verdict.counter_example->flaw, comm::Flaw::race) << verdict.counter_example->text;
}

/// Two sums under way at once: one rank advances the one first, the next rank the other.
void interleave(const Communicator& first_ranks, const Communicator& second_ranks, int second_tag) {
  const comm::Topology mesh = comm::topology_from_text({"4x4", "neither", {"1,1,2x2"}, {}});
  const comm::Schedule ring = comm::plan_schedule(mesh, comm::Scheme::ring);
  const comm::Schedule rows = comm::plan_schedule(mesh, comm::Scheme::forwarding);
  const auto me = static_cast<std::size_t>(first_ranks.rank());
  std::mt19937_64 random(ring.size());
  auto ring_sums = arrays_of<float>(12, 40'009, 1), rows_sums = arrays_of<float>(12, 3'001, 2);
  std::vector<float> one = ring_sums[me], other = rows_sums[me];
  tests::run_serially(ring, ring_sums, random);
  tests::run_serially(rows, rows_sums, random);
  MeshAllreduce<float> by_ring(first_ranks, std::make_shared<const LocalSchedule>(ring, first_ranks.rank()),
                               one.data(), one.size(), 0);
  MeshAllreduce<float> by_rows(second_ranks, std::make_shared<const LocalSchedule>(rows, second_ranks.rank()),
                               other.data(), other.size(), second_tag);
  const bool swapped = me % 2 == 1;
  (swapped ? by_rows : by_ring).start();
  (swapped ? by_ring : by_rows).start();
  for (bool done = false; !done;) {
    const bool a = (swapped ? by_rows : by_ring).advance(), b = (swapped ? by_ring : by_rows).advance();
    done = a && b;
  }
  EXPECT_TRUE(same_bits(one, ring_sums[0]));
  EXPECT_TRUE(same_bits(other, rows_sums[0]));
}

TEST(MeshAllreduce, TwoSchedulesRunAtOnce) {
  const auto ranks = ranks_of(comm::topology_from_text({"4x4", "neither", {"1,1,2x2"}, {}}));
  if (!ranks) return;
  const Communicator other = ranks->duplicate();
  for (int i = 0; i < 5; ++i) {
    interleave(*ranks, other, 0);
    interleave(*ranks, *ranks, 1);
  }
}

template <typename Work>
std::string refusal(ErrorCode code, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST(MeshAllreduce, RefusesWhatDoesNotFit) {
  const comm::Topology mesh = comm::topology_from_text({"4x4", "neither", {"0,0"}, {}});
  const comm::Schedule plan = comm::plan_schedule(mesh, comm::Scheme::row_pairs);
  const auto mine = std::make_shared<const LocalSchedule>(plan, std::min(world().rank(), 14));
  float values[40] = {};
  using Sum = MeshAllreduce<float>;
  EXPECT_EQ(
      refusal(ErrorCode::bad_input, [&] { Sum(world(), mine, values, 40, 0); }),
      fmt::format("rank {} of 16 cannot run what was made for rank {} of 15: each live chip needs one rank",
                  world().rank(), mine->rank()));
  EXPECT_EQ(refusal(ErrorCode::bad_input, [&] { LocalSchedule(plan, 15); }),
            "rank 15 has no chip: the schedule is for 15 live chips");
  EXPECT_NE(refusal(ErrorCode::bad_input, [&] { LocalSchedule(plan, -1); }).find("rank -1"),
            std::string::npos);
  const auto ranks = ranks_of(mesh);
  if (!ranks) return;
  EXPECT_EQ(refusal(ErrorCode::internal, [&] { Sum(*ranks, mine, values, 40, 1 << 14); }),
            "a sum with tag 16384");
  EXPECT_EQ(refusal(ErrorCode::internal, [&] { Sum(*ranks, mine, nullptr, 40, 0); }),
            "a sum without an array");
  const std::size_t most = std::size_t{plan.chunks()} * std::numeric_limits<int>::max();
  EXPECT_NE(refusal(ErrorCode::unsupported, [&] { Sum(*ranks, mine, values, most + 1, 0); })
                .find("a chunk of 2147483648 elements"),
            std::string::npos);
}

TEST(MeshAllreduce, RefusesAScheduleThatWouldHang) {
  const comm::Topology line = comm::topology_from_text({"1x3", "neither", {"0,2"}, {}});
  comm::Schedule circle(line, comm::Scheme::other, 1);
  circle.append({0, 1, 0, comm::SendKind::add}, {1});
  circle.append({1, 0, 0, comm::SendKind::copy}, {0});
  EXPECT_NE(refusal(ErrorCode::bad_input, [&] { LocalSchedule(circle, 0); }).find("which waits for send 0"),
            std::string::npos);
  comm::Schedule to_the_dead(line, comm::Scheme::other, 1);
  to_the_dead.append({1, 2, 0, comm::SendKind::add}, {});
  EXPECT_EQ(refusal(ErrorCode::bad_input, [&] { LocalSchedule(to_the_dead, 1); }),
            "send 0 (chip 1 to chip 2, chunk 0, add) cannot be run: chip 2 is dead");
}

// A schedule in which chip 1 only receives, so that no other rank is left waiting.
TEST(MeshAllreduce, ANeighbourWithAnArrayOfAnotherSizeIsAnError) {
  const comm::Topology pair = comm::topology_from_text({"1x2", "neither", {}, {}});
  comm::Schedule plan(pair, comm::Scheme::other, 2);
  for (const std::uint32_t chunk : {0U, 1U}) plan.append({0, 1, chunk, comm::SendKind::add}, {});
  const auto ranks = ranks_of(pair);
  if (!ranks) return;
  const auto mine = std::make_shared<const LocalSchedule>(plan, ranks->rank());
  const auto values = std::make_shared<std::vector<float>>(16, 1.0F);
  for (const std::size_t count : {10UL, 14UL}) {  // of rank 0; rank 1 has 12
    MeshAllreduce<float> sum(*ranks, mine, values->data(), ranks->rank() == 0 ? count : 12,
                             static_cast<int>(count), values);
    sum.start();
    if (ranks->rank() == 0) {
      sum.wait();
      continue;
    }
    const std::string text = refusal(ErrorCode::internal, [&] { sum.wait(); });
    EXPECT_NE(text.find(count == 10 ? "rank 1 expected 6 elements of chunk 0 from rank 0 and received 5"
                                    : "MPI_Test: MPI_ERR_TRUNCATE"),
              std::string::npos)
        << text;
  }
}

TEST(MeshAllreduce, DroppedUnderWayItLeavesMpiTheMemory) {
  const comm::Topology mesh = comm::topology_from_text({"2x2", "neither", {}, {}});
  const auto ranks = ranks_of(mesh);
  if (!ranks) return;
  const auto mine =
      std::make_shared<const LocalSchedule>(comm::plan_schedule(mesh, comm::Scheme::ring), ranks->rank());
  const auto start_and_drop = [&](bool wait) {
    const auto values = std::make_shared<std::vector<float>>(1000, 1.0F);
    MeshAllreduce<float> sum(*ranks, mine, values->data(), values->size(), wait ? 1 : 2, values);
    sum.start();
    if (wait) sum.wait();
    return std::weak_ptr<const std::vector<float>>(values);
  };
  EXPECT_TRUE(start_and_drop(true).expired());
  if (ranks->rank() == 0) {
    EXPECT_FALSE(start_and_drop(false).expired());
  }
  ranks->barrier();
  if (ranks->rank() > 0) start_and_drop(false);
  ranks->barrier();
}

TEST(MeshAllreduce, ASumUnderWayIsNotStartedAgain) {
  const comm::Topology mesh = comm::topology_from_text({"1x2", "neither", {}, {}});
  const auto ranks = ranks_of(mesh);
  if (!ranks) return;
  const comm::Schedule plan = comm::plan_schedule(mesh, comm::Scheme::rings_2d);
  std::vector<double> values(100, 1.5);
  MeshAllreduce<double> sum(*ranks, std::make_shared<const LocalSchedule>(plan, ranks->rank()), values.data(),
                            values.size(), 0);
  sum.start();
  EXPECT_EQ(refusal(ErrorCode::internal, [&] { sum.start(); }), "a sum that is under way was started");
  sum.wait();
  EXPECT_EQ(values, std::vector<double>(100, 3.0));
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** arguments) { return bitrift::mpi::run_in_world(count, arguments, 16); }
