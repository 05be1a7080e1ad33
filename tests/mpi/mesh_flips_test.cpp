// A bit of a message flips on its way, or a link is slow. Runs under mpirun with 5 ranks; the smaller mesh
// runs on 4 of them.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "mesh_world.h"
#include "mpi/mesh_allreduce.h"
#include "serial_schedule.h"

namespace bitrift::mpi {
namespace {

template <typename T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  return std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

template <typename T>
void flip(T& value, unsigned bit) {
  using Pattern = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  value = std::bit_cast<T>(std::bit_cast<Pattern>(value) ^ (Pattern{1} << bit));
}

/// Every rank ends as a serial run with that flip has it, and in the next round, without it, as one without.
/// How many ranks had other bits than without the flip.
template <typename T>
std::ptrdiff_t flip_and_compare(const Communicator& ranks, const comm::Schedule& plan, std::size_t send,
                                unsigned bit) {
  constexpr std::size_t count = 1'201, element = 2;
  const auto chips = static_cast<std::size_t>(ranks.size()), me = static_cast<std::size_t>(ranks.rank());
  const auto given = arrays_of<T>(chips, count, send);
  auto clean = given, altered = given;
  std::mt19937_64 random(send);
  tests::run_serially(plan, clean, random);
  tests::run_serially<T>(plan, altered, random, [&](std::size_t index, std::vector<T>& brought) {
    if (index == send) flip(brought.at(element), bit);
  });
  std::vector<T> array = given[me];
  MeshAllreduce<T> sum(ranks, std::make_shared<const LocalSchedule>(plan, ranks.rank()), array.data(), count,
                       3);
  int met = 0;
  sum.on_arrival([&](const typename MeshAllreduce<T>::Arrival& arrival) {
    if (arrival.step.send != send) return;
    ++met;
    EXPECT_EQ(plan.topology().live()[static_cast<std::size_t>(arrival.from)], plan.send(send).from);
    flip(arrival.data[element], bit);
  });
  sum.start();
  sum.wait();
  EXPECT_TRUE(same_bits(array, altered[me])) << plan.name(send) << " bit " << bit;
  EXPECT_EQ(met, plan.topology().live()[me] == plan.send(send).to ? 1 : 0);
  sum.on_arrival({});
  array = given[me];
  sum.start();
  sum.wait();
  EXPECT_TRUE(same_bits(array, clean[me]));
  std::ptrdiff_t hit = 0;
  for (std::size_t r = 0; r < chips; ++r) hit += same_bits(altered[r], clean[r]) ? 0 : 1;
  return hit;
}

// Every send of each plan: an addition spreads the flip to all ranks alike, a copy to those beyond its link.
TEST(MeshFlips, TravelOnAsInASerialRun) {
  for (const auto& text :
       std::vector<comm::TopologyText>{{"2x2", "neither", {}, {}}, {"2x3", "neither", {"0,1"}, {}}}) {
    const comm::Topology mesh = comm::topology_from_text(text);
    const auto chips = static_cast<std::ptrdiff_t>(mesh.live().size());
    const auto ranks = ranks_of(mesh);
    if (!ranks) continue;
    const comm::Schedule plan = comm::plan_schedule(mesh, comm::Scheme::trees, {.bytes = 4'804});
    std::set<std::ptrdiff_t> hit_by_adds, hit_by_copies;
    for (std::size_t send = 0; send < plan.size(); ++send) {
      const bool adds = plan.send(send).kind == comm::SendKind::add;
      (adds ? hit_by_adds : hit_by_copies).insert(flip_and_compare<float>(*ranks, plan, send, 31));
      flip_and_compare<double>(*ranks, plan, send, 62);
    }
    hit_by_adds.erase(0);  // so small a number that larger ones swallow it, with either sign
    EXPECT_EQ(hit_by_adds, std::set{chips});
    EXPECT_TRUE(hit_by_copies.contains(1));
    EXPECT_FALSE(hit_by_copies.contains(chips));
  }
}

// The messages of the first rank to the second are late; each of them is asked about once.
TEST(SlowLinks, ChangeNoBitAndHoldUpWhatWaitsForThem) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t count = 1'201;
  constexpr double delay = 0.02;
  for (const comm::Scheme scheme : {comm::Scheme::trees, comm::Scheme::ring}) {
    const comm::Topology mesh = comm::topology_from_text({"2x2", "neither", {}, {}});
    const auto ranks = ranks_of(mesh);
    if (!ranks) continue;
    const comm::Schedule plan = comm::plan_schedule(mesh, scheme, {.bytes = 4'804});
    const auto me = static_cast<std::size_t>(ranks->rank());
    const auto given = arrays_of<float>(4, count, 5);
    auto expected = given;
    std::mt19937_64 random(1);
    tests::run_serially(plan, expected, random);
    std::vector<float> array = given[me];
    MeshAllreduce<float> sum(*ranks, std::make_shared<const LocalSchedule>(plan, ranks->rank()), array.data(),
                             count, 3);
    std::map<int, int> asked, sends;
    for (const comm::Send& send : plan.sends()) {
      if (send.from == ranks->rank()) ++sends[send.to];
    }
    for (int round = 1; round <= 2; ++round) {
      array = given[me];
      sum.on_send([&](int to) {
        ++asked[to];
        return me == 0 && to == 1 ? delay : 0;
      });
      ranks->barrier();
      const auto began = Clock::now();
      sum.start();
      if (round == 1) {
        while (!sum.advance()) continue;
      } else {
        sum.wait();
      }
      const std::chrono::duration<double> took = Clock::now() - began;
      EXPECT_TRUE(same_bits(array, expected[me])) << name_of(scheme);
      // A tree or a ring leads over this link, and its far end waits for what it brings.
      if (me == 1) {
        EXPECT_GE(took.count(), delay) << name_of(scheme);
      }
    }
    for (auto& [to, number] : sends) number *= 2;
    EXPECT_EQ(asked, sends);
    sum.on_send({});
    array = given[me];
    sum.start();
    sum.wait();
    EXPECT_TRUE(same_bits(array, expected[me]));
    EXPECT_EQ(asked, sends);
  }
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** arguments) { return bitrift::mpi::run_in_world(count, arguments, 5); }
