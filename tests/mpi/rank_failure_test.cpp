// One rank dies in the midst of some work: every other gets RankFailed, at the latest when somebody revoked
// the communicator, and no other error. Needs ULFM.
//
//   mpirun --with-ft ulfm -n N mpi_rank_failure WORK VICTIM
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "comm/plan/planner.h"
#include "mpi/communicator.h"
#include "mpi/mesh_allreduce.h"
#include "mpi/ordered_sum.h"
#include "survivor_verdict.h"

namespace bitrift::mpi {
namespace {

void barrier(const Communicator& world) { world.barrier(); }

// Replicas are held unevenly: the first rank that holds any has two.
void add(const Communicator& world, std::size_t count, bool wait) {
  std::vector<int> holders = {world.size() - 1};
  for (int r = world.size() - 1; r >= 0; --r) holders.push_back(r);
  const auto values = std::make_shared<std::vector<std::vector<float>>>(2, std::vector<float>(count, 1.0F));
  std::vector<float*> terms = {(*values)[0].data()};
  if (world.rank() == world.size() - 1) terms.push_back((*values)[1].data());
  OrderedSum<float> sum(world, terms, count, holders, 0, values);
  sum.start();
  while (!wait && !sum.advance()) continue;
  sum.wait();
  if ((*values)[0][count / 2] != static_cast<float>(world.size() + 1))
    fail(ErrorCode::internal, "a wrong sum");
}

// By a ring of four: no rank speaks to the one opposite.
void add_on_mesh(const Communicator& world, std::size_t count, bool wait) {
  static const auto schedule = std::make_shared<const LocalSchedule>(
      comm::plan_schedule(comm::Topology(2, 2, comm::Wrap::neither, {}, {}), comm::Scheme::ring),
      world.rank());
  const auto values = std::make_shared<std::vector<float>>(count, 1.0F);
  MeshAllreduce<float> sum(world, schedule, values->data(), count, 0, values);
  sum.start();
  while (!wait && !sum.advance()) continue;
  sum.wait();
  if (values->front() != 4.0F || values->back() != 4.0F) fail(ErrorCode::internal, "a wrong sum");
}

void broadcast(const Communicator& world) {
  std::string text(world.rank() == 0 ? 1 << 18 : 0, 'a');
  world.broadcast(text, 0);
}

void allgather(const Communicator& world) {
  (void)world.allgather(std::string(static_cast<std::size_t>(1000 * world.rank()), 'b'));
  (void)world.gather("c", 0);
}

// Along the chain and back: a rank speaks to its neighbours only.
void chain(const Communicator& world, std::size_t size) {
  std::vector<char> bytes(size);
  const int me = world.rank(), last = world.size() - 1;
  if (me > 0) world.receive(bytes.data(), size, me - 1, 1);
  if (me < last) {
    world.send(bytes.data(), size, me + 1, 1);
    world.receive(bytes.data(), size, me + 1, 2);
  }
  if (me > 0) world.send(bytes.data(), size, me - 1, 2);
}

// Requests that nobody answers: the first is waited for, the second left to its destructor.
void requests(const Communicator& world) {
  static const auto room = std::make_unique<std::vector<char>>(1 << 20);
  const int next = (world.rank() + 1) % world.size();
  const Request dropped = world.start_send(room->data(), room->size(), next, 4);
  Request waited = world.start_receive(room->data(), 1, next, 3);
  // Only the ranks next to the dead one learn of it by themselves.
  for (int i = 0; i < 20 && failed_ranks(world).empty(); ++i) {
    if (waited.test()) fail(ErrorCode::internal, "a message that nobody sent");
    ::usleep(1000);
  }
  waited.wait();
}

// In these the rank dies between two calls (see settle() in mpi/handles.h).
void split(const Communicator& world) { (void)world.split(world.rank() % 2, 0); }
void duplicate(const Communicator& world) { (void)world.duplicate(); }

using Work = std::function<void(const Communicator&)>;

const std::map<std::string, Work>& works() {
  static const std::map<std::string, Work> all = {
      {"barrier", barrier},
      {"sum", [](const Communicator& world) { add(world, 100'000, true); }},
      {"small-sum", [](const Communicator& world) { add(world, 10, true); }},
      {"polled-sum", [](const Communicator& world) { add(world, 100'000, false); }},
      {"mesh", [](const Communicator& world) { add_on_mesh(world, 100'000, true); }},
      {"small-mesh", [](const Communicator& world) { add_on_mesh(world, 10, true); }},
      {"polled-mesh", [](const Communicator& world) { add_on_mesh(world, 100'000, false); }},
      {"broadcast", broadcast},
      {"allgather", allgather},
      {"chain", [](const Communicator& world) { chain(world, 100'000); }},
      {"small-chain", [](const Communicator& world) { chain(world, 8); }},
      {"requests", requests},
      {"split", split},
      {"duplicate", duplicate}};
  return all;
}

// Whether the work ended as it should. dies_after: where this rank dies by itself between two rounds of it.
bool work_until_a_rank_fails(const Communicator& world, const Work& work, double dies_after) {
  const auto start = Clock::now();
  try {
    while (milliseconds_since(start) < 10'000) {
      if (milliseconds_since(start) > dies_after) ::kill(::getpid(), SIGKILL);
      work(world);
    }
    fmt::print("rank {}: nothing failed\n", world.rank());
  } catch (const RankFailed& failed) {
    const auto before = Clock::now();
    revoke(world);
    fmt::print("rank {}: {} after {:.1f} ms, revoked in {:.2f} ms\n", world.rank(), failed.what(),
               milliseconds_since(start), milliseconds_since(before));
    return true;
  } catch (const std::exception& error) {
    fmt::print("rank {}: not RankFailed: {}\n", world.rank(), error.what());
    revoke(world);
  }
  return false;
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** words) {
  using namespace bitrift::mpi;
  if (count != 3 || works().count(words[1]) == 0) {
    std::fprintf(stderr, "usage: mpirun --with-ft ulfm -n N %s WORK VICTIM\n", words[0]);
    return 2;
  }
  Environment environment;
  limit_seconds(20);
  const Communicator& world = environment.world();
  const std::string work = words[1];
  double dies_after = 1e9;
  if (world.rank() == std::strtol(words[2], nullptr, 10)) {
    const unsigned delay = 10'000 + std::random_device()() % 20'000;
    if (work == "split" || work == "duplicate") {
      dies_after = delay / 1000.0;
    } else {
      die_in(std::chrono::microseconds(delay));
    }
  }
  const bool right = work_until_a_rank_fails(world, works().at(work), dies_after);
  const Communicator survivors = shrink(world);
  give_verdict(environment, survivors, right && survivors.size() == world.size() - 1);
}
