// Allreduce by schedules beside MPI_Allreduce and OrderedSum, in turns, in one run:
//
//   mpirun -n CHIPS bench_mesh_allreduce REPETITIONS MESH [DEAD...]
//
// as many ranks as live chips. A repetition times several calls in a row on the slowest rank.
#include "mpi/mesh_allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "comm/plan/planner.h"
#include "comm/verify.h"
#include "mpi/environment.h"
#include "mpi/ordered_sum.h"

namespace bitrift::mpi {
namespace {

struct Contender {
  std::string name;
  std::function<void()> add;
  std::vector<double> seconds = {};  // of a call, by repetition
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

/// Every scheme that serves the mesh, for arrays of so many floats.
std::vector<comm::Schedule> schedules(const comm::Topology& mesh, std::size_t count) {
  std::vector<comm::Schedule> all;
  for (const comm::Scheme scheme : comm::planned_schemes) {
    try {
      all.push_back(comm::plan_schedule(mesh, scheme, {.bytes = static_cast<double>(count * sizeof(float))}));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      continue;
    }
    if (const auto flaw = comm::verify(all.back()).counter_example)
      fail(ErrorCode::internal, "{}", flaw->text);
  }
  return all;
}

/// Seconds of a call on the slowest rank.
double timed(const std::function<void()>& add, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) add();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

void compare(const Communicator& world, const comm::Topology& mesh, std::size_t count, int calls,
             int repetitions) {
  std::vector<float> values(count, 0.0F);
  std::vector<Contender> all;
  all.push_back({"MPI_Allreduce", [&] {
                   MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
                 }});
  const auto ordered = std::make_shared<OrderedSum<float>>(world, values.data(), count, 0);
  all.push_back({"ordered sum", [ordered] {
                   ordered->start();
                   ordered->wait();
                 }});
  for (const comm::Schedule& plan : schedules(mesh, count)) {
    const auto sum = std::make_shared<MeshAllreduce<float>>(
        world, std::make_shared<const LocalSchedule>(plan, world.rank()), values.data(), count, 0);
    all.push_back({name_of(plan.scheme()), [sum] {
                     sum->start();
                     sum->wait();
                   }});
  }
  for (int r = -1; r < repetitions; ++r) {
    for (Contender& one : all) {
      const double seconds = timed(one.add, calls);
      if (r >= 0) one.seconds.push_back(seconds);
    }
  }
  if (world.rank() != 0) return;
  fmt::print("  {} KB, median of {} repetitions of {} calls (fastest .. slowest), ratio to MPI_Allreduce\n",
             count * sizeof(float) / 1000, repetitions, calls);
  for (const Contender& one : all) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < one.seconds.size(); ++i) ratios.push_back(one.seconds[i] / all[0].seconds[i]);
    const auto [least, most] = std::ranges::minmax(one.seconds);
    fmt::print(
        "    {:<14} {:8.3f} ms  {:8.3f} .. {:8.3f}   x {:5.2f}  (of the same repetition: median x {:.2f})\n",
        one.name, median(one.seconds) * 1e3, least * 1e3, most * 1e3,
        median(one.seconds) / median(all[0].seconds), median(ratios));
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** words) {
  using namespace bitrift;
  if (count < 3) {
    std::fprintf(stderr, "usage: mpirun -n CHIPS %s REPETITIONS MESH [DEAD...]\n", words[0]);
    return 2;
  }
  try {
    mpi::Environment environment;
    const comm::Topology mesh = comm::topology_from_text(
        {words[2], "neither", std::vector<std::string>(words + 3, words + count), {}});
    if (environment.world().rank() == 0)
      fmt::print("{} ranks on {}x{}\n", environment.world().size(), mesh.rows(), mesh.columns());
    const int repetitions = std::max(1, static_cast<int>(std::strtol(words[1], nullptr, 10)));
    mpi::compare(environment.world(), mesh, 19'750, 20, repetitions);  // LeNet's gradients: 79 KB
    mpi::compare(environment.world(), mesh, 250'000, 5, repetitions);
    environment.finalize();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
