// One rank of several dies: the others get RankFailed instead of waiting for ever. Needs ULFM (mpirun
// --with-ft ulfm).
#include <csignal>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "mpi/communicator.h"
#include "mpi/environment.h"

int main() {
  bitrift::mpi::Environment environment;
  const bitrift::mpi::Communicator& world = environment.world();
  world.barrier();
  if (world.rank() == world.size() - 1) ::raise(SIGKILL);
  int code = 1;
  try {
    for (int i = 0; i < 1000; ++i) {
      world.barrier();
      ::usleep(1000);
    }
  } catch (const bitrift::mpi::RankFailed& failed) {
    code = 0;
    std::printf("rank %d: %s\n", world.rank(), failed.what());
  }
  std::fflush(stdout);
  ::_exit(code);
}
