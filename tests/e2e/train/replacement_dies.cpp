// Kills each process that a recovery spawned, at its first agreement with the others. It is a library for
// LD_PRELOAD: test_rank_failure.py has replacements fail with it, one after the other.
#include <csignal>

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
