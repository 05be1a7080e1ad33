// The allgather number BITRIFT_TEST_EXCHANGE of a job succeeds on rank BITRIFT_TEST_VICTIM alone, which then
// has time to die: on the others it fails, as it may where the last message of a rank is lost with the rank.
// It is a library for LD_PRELOAD, for test_rank_failure.py.
#include <cstdlib>

#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif
#include <unistd.h>

int MPI_Allgather(const void* mine, int count, MPI_Datatype type, void* all, int all_count,
                  MPI_Datatype all_type, MPI_Comm group) {
  static int calls = 0;
  const int code = PMPI_Allgather(mine, count, type, all, all_count, all_type, group);
  const char* exchange = std::getenv("BITRIFT_TEST_EXCHANGE");
  const char* victim = std::getenv("BITRIFT_TEST_VICTIM");
  if (exchange == nullptr || victim == nullptr || ++calls != std::atoi(exchange)) return code;
  int rank = -1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == std::atoi(victim)) return code;
  constexpr unsigned enough = 500'000;  // microseconds
  ::usleep(enough);
  return MPIX_ERR_PROC_FAILED;
}
