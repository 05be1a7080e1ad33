#include "mpi/local_schedule.h"

#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "comm/verify.h"

namespace bitrift::mpi {
namespace {

std::vector<comm::Schedule> some_plans() {
  const comm::Topology hole = comm::topology_from_text({"4x4", "neither", {"1,1,2x2"}, {}});
  const comm::Topology torus = comm::topology_from_text({"3x4", "both", {}, {}});
  return {comm::plan_schedule(hole, comm::Scheme::ring), comm::plan_schedule(hole, comm::Scheme::forwarding),
          comm::plan_schedule(torus, comm::Scheme::rings_2d)};
}

std::vector<LocalSchedule> all_ranks(const comm::Schedule& plan) {
  const std::size_t ranks = plan.topology().live().size();
  std::vector<LocalSchedule> all;
  all.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) all.emplace_back(plan, static_cast<int>(rank));
  return all;
}

// What the ends of each directed link believe will pass there, from (rank, rank).
using Passing = std::map<std::pair<int, int>, std::vector<std::pair<std::uint32_t, comm::SendKind>>>;

TEST(LocalSchedule, BothEndsOfALinkExpectTheSameMessages) {
  for (const comm::Schedule& plan : some_plans()) {
    Passing sent, received;
    std::size_t steps = 0;
    for (const LocalSchedule& local : all_ranks(plan)) {
      steps += local.size();
      for (const auto& queue : local.outgoing()) {
        for (const std::uint32_t index : queue.steps) {
          EXPECT_EQ(local.step(index).part, comm::Part::read);
          EXPECT_EQ(plan.send(local.step(index).send).chunk, local.step(index).chunk);
          sent[{local.rank(), queue.rank}].emplace_back(local.step(index).chunk, local.step(index).kind);
        }
      }
      for (const auto& queue : local.incoming()) {
        for (const std::uint32_t index : queue.steps) {
          EXPECT_EQ(local.step(index).part, comm::Part::write);
          received[{queue.rank, local.rank()}].emplace_back(local.step(index).chunk, local.step(index).kind);
        }
      }
    }
    EXPECT_EQ(steps, 2 * plan.size());
    EXPECT_EQ(sent, received);
    EXPECT_EQ(sent.size(), plan.topology().links().size());
  }
}

TEST(LocalSchedule, EveryUseThatAStepWouldDisturbEndsBeforeIt) {
  for (const comm::Schedule& plan : some_plans()) {
    for (const LocalSchedule& local : all_ranks(plan)) {
      std::vector<std::vector<bool>> behind(local.size(), std::vector<bool>(local.size(), false));
      for (std::uint32_t i = 0; i < local.size(); ++i) {
        for (const std::uint32_t before : local.waits(i)) {
          ASSERT_LT(before, i);  // so none waits for itself, however indirectly
          behind[i][before] = true;
          for (std::uint32_t k = 0; k < before; ++k) behind[i][k] = behind[i][k] || behind[before][k];
        }
        for (std::uint32_t k = 0; k < i; ++k) {
          const auto &one = local.step(k), &other = local.step(i);
          const bool writes = one.part == comm::Part::write || other.part == comm::Part::write;
          if (one.chunk == other.chunk && writes) {
            EXPECT_TRUE(behind[i][k]) << "rank " << local.rank() << ": " << k << ", " << i;
          }
        }
      }
    }
  }
}

// Chip 0 gets the result from a chip that had waited for what chip 0 sent, so the schedule is right without
// naming that send. Yet MPI must have said that it is complete before the chunk may be written.
TEST(LocalSchedule, AResultWaitsForTheSendUpwards) {
  comm::Schedule plan(comm::topology_from_text({"1x3", "neither", {}, {}}), comm::Scheme::other, 1);
  plan.append({0, 1, 0, comm::SendKind::add}, {});
  plan.append({1, 2, 0, comm::SendKind::add}, {0});
  plan.append({2, 1, 0, comm::SendKind::copy}, {1});
  plan.append({1, 0, 0, comm::SendKind::copy}, {2});
  ASSERT_FALSE(comm::verify(plan).counter_example);
  const LocalSchedule first(plan, 0);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(first.waits(0).empty());
  ASSERT_EQ(first.waits(1).size(), 1U);
  EXPECT_EQ(first.waits(1)[0], 0U);
}

}  // namespace
}  // namespace bitrift::mpi
