// Rank 0 is killed while all ranks repeat a collective call, again and again, until two ranks are left. A
// rank that gets success from a call must have the data of all ranks, also of the one that died. Needs ULFM.
//
//   mpirun --with-ft ulfm -n N mpi_lost_data bitrift|mpi|allgatherv
//
// `bitrift`: the calls of Communicator. `mpi`: the calls of MPI that they are made of; they are sealed, so a
// new MPI library that loses data in them does no harm, but docs/rank-failure.md says that this one does not.
// `allgatherv`: what MPI_Allgatherv does, which bitrift does not use. In Open MPI 5.0.11 it loses data.
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <mpi.h>

#include "mpi/checked.h"
#include "mpi/communicator.h"
#include "mpi/handles.h"
#include "survivor_verdict.h"

namespace bitrift::mpi {
namespace {

struct DataLost {};

// What rank `rank` says in round `round`: another length each time. In every second round all are short,
// because MPI_Allgatherv loses only less than 1,024 bytes.
std::string text_of(int rank, int round) {
  const std::size_t sizes[] = {0, 1, 7, 34, 90, 33, round % 2 == 0 ? std::size_t{50} : std::size_t{5000}};
  return std::string(sizes[static_cast<std::size_t>(round * 3 + rank) % std::size(sizes)],
                     static_cast<char>('a' + (round + rank) % 26));
}

// The same length on all ranks.
std::string row_of(int rank, int round, std::size_t size = 34) {
  return std::string(size, static_cast<char>('a' + (round + rank) % 26));
}

void require(bool arrived) {
  if (!arrived) throw DataLost{};
}

void require_rows(const Communicator& group, const std::string& all, int round, std::size_t size) {
  std::string expected;
  for (int rank = 0; rank < group.size(); ++rank) expected += row_of(rank, round, size);
  require(all == expected);
}

std::string room_for(const Communicator& group, std::size_t size) {
  return std::string(size * static_cast<std::size_t>(group.size()), '\0');
}

void allgather(const Communicator& group, int round) {
  const std::vector<std::string> texts = group.allgather(text_of(group.rank(), round));
  for (int rank = 0; rank < group.size(); ++rank)
    require(texts[static_cast<std::size_t>(rank)] == text_of(rank, round));
}

void gather(const Communicator& group, int round) {
  const int root = group.size() - 1;
  const std::vector<std::string> texts = group.gather(text_of(group.rank(), round), root);
  for (int rank = 0; group.rank() == root && rank < group.size(); ++rank)
    require(texts[static_cast<std::size_t>(rank)] == text_of(rank, round));
}

void broadcast_text(const Communicator& group, int round) {
  std::string text = group.rank() == 0 ? text_of(0, round) : "";
  group.broadcast(text, 0);
  require(text == text_of(0, round));
}

void broadcast_bytes(const Communicator& group, int round) {
  const std::size_t size = round % 2 == 0 ? 100 : 100'000;
  std::string bytes = group.rank() == 0 ? row_of(0, round, size) : std::string(size, '\0');
  group.broadcast(bytes.data(), size, 0);
  require(bytes == row_of(0, round, size));
}

void allgather_equal(const Communicator& group, int round) {
  const std::string mine = row_of(group.rank(), round);
  std::string all = room_for(group, mine.size());
  group.allgather_equal(mine.data(), mine.size(), all.data());
  require_rows(group, all, round, mine.size());
}

void mpi_allgather(const Communicator& group, int round) {
  const std::size_t size = round % 2 == 0 ? 34 : 5000;
  const std::string mine = row_of(group.rank(), round, size);
  std::string all = room_for(group, size);
  const int count = static_cast<int>(size);
  check_code(MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, group.state().handle),
             "");
  require_rows(group, all, round, size);
}

void mpi_gather(const Communicator& group, int round) {
  const int root = group.size() - 1;
  const std::string mine = row_of(group.rank(), round);
  std::string all = room_for(group, mine.size());
  const int count = static_cast<int>(mine.size());
  check_code(
      MPI_Gather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, root, group.state().handle), "");
  if (group.rank() == root) require_rows(group, all, round, mine.size());
}

void mpi_bcast(const Communicator& group, int round) {
  const std::size_t size = round % 2 == 0 ? 34 : 100'000;
  std::string bytes = group.rank() == 0 ? row_of(0, round, size) : std::string(size, '\0');
  check_code(MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, group.state().handle), "");
  require(bytes == row_of(0, round, size));
}

void mpi_allgatherv(const Communicator& group, int round) {
  const std::string mine = row_of(group.rank(), round);
  const int count = static_cast<int>(mine.size());
  std::string all = room_for(group, mine.size());
  std::vector<int> counts(static_cast<std::size_t>(group.size()), count), starts;
  for (int rank = 0; rank < group.size(); ++rank) starts.push_back(rank * count);
  check_code(MPI_Allgatherv(mine.data(), count, MPI_BYTE, all.data(), counts.data(), starts.data(), MPI_BYTE,
                            group.state().handle),
             "");
  require_rows(group, all, round, mine.size());
}

using Call = std::function<void(const Communicator&, int round)>;
struct NamedCall {
  const char* name;
  Call call;
};

std::vector<NamedCall> calls_of(const std::string& set) {
  if (set == "bitrift") {
    return {{"allgather", allgather}, {"allgather_equal", allgather_equal},
            {"allgather", allgather}, {"broadcast of a text", broadcast_text},
            {"allgather", allgather}, {"broadcast of bytes", broadcast_bytes},
            {"gather", gather}};
  }
  if (set == "mpi")
    return {{"MPI_Allgather", mpi_allgather}, {"MPI_Gather", mpi_gather}, {"MPI_Bcast", mpi_bcast}};
  if (set == "allgatherv") return {{"MPI_Allgatherv", mpi_allgatherv}};
  return {};
}

// Repeats the call until rank 0 dies in it. Whether this rank was told.
bool dies_with_notice(const Communicator& group, const Call& call) {
  if (group.rank() == 0) die_in(std::chrono::microseconds(1000 + std::random_device()() % 20'000));
  bool told = true;
  try {
    for (int round = 0;; ++round) call(group, round);
  } catch (const RankFailed&) {
  } catch (const DataLost&) {
    told = false;
  }
  revoke(group);
  return told;
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** words) {
  using namespace bitrift::mpi;
  const std::vector<NamedCall> calls = count == 2 ? calls_of(words[1]) : std::vector<NamedCall>();
  if (calls.empty()) {
    std::fprintf(stderr, "usage: mpirun --with-ft ulfm -n N %s bitrift|mpi|allgatherv\n", words[0]);
    return 2;
  }
  Environment environment;
  limit_seconds(30);
  Communicator group = environment.world();
  int silent = 0, deaths = 0;
  while (group.size() > 2) {
    const NamedCall& one = calls[static_cast<std::size_t>(deaths++) % calls.size()];
    const bool mine = dies_with_notice(group, one.call);
    group = shrink(group);
    const bool told = all_agree(group, mine);
    if (group.rank() == 0) fmt::print("{}: {}\n", one.name, told ? "reported" : "success without the data");
    silent += told ? 0 : 1;
  }
  if (group.rank() == 0)
    fmt::print("deaths: {}, {}\n", deaths, silent == 0 ? "all reported" : "some without a report");
  give_verdict(environment, group, silent == 0);
}
