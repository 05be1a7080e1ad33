// Kills each process that a recovery spawned, at its first agreement with the others; with the variable
// BITRIFT_TEST_REFUSES_SPAWN, none can be spawned. It is a library for LD_PRELOAD: test_rank_failure.py and
// test_expand.py have replacements fail with it, one after the other.
#include <csignal>
#include <cstdlib>

#include <dlfcn.h>
#include <mpi.h>

extern "C" int MPIX_Comm_agree(MPI_Comm group, int* flag);

int MPIX_Comm_agree(MPI_Comm group, int* flag) {
  MPI_Comm parent = MPI_COMM_NULL;
  PMPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) ::raise(SIGKILL);
  using Agree = int (*)(MPI_Comm, int*);
  const auto next = reinterpret_cast<Agree>(::dlsym(RTLD_NEXT, "MPIX_Comm_agree"));
  return next(group, flag);
}

int MPI_Comm_spawn(const char* command, char* argv[], int count, MPI_Info info, int root, MPI_Comm group,
                   MPI_Comm* between, int errors[]) {
  if (std::getenv("BITRIFT_TEST_REFUSES_SPAWN") != nullptr) return MPI_ERR_SPAWN;
  return PMPI_Comm_spawn(command, argv, count, info, root, group, between, errors);
}
