#include "mpi/handles.h"

#include "mpi/checked.h"
#include "mpi/pulse.h"

namespace bitrift::mpi {

std::shared_ptr<CommunicatorHandle> adopt(MPI_Comm handle) {
  check_code(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  auto state = std::make_shared<CommunicatorHandle>();
  state->handle = handle;
  return state;
}

void settle(MPI_Comm handle) {
#ifdef MPIX_ERR_PROC_FAILED
  MPI_Group failed = MPI_GROUP_NULL;
  check_code(MPIX_Comm_get_failed(handle, &failed), "MPIX_Comm_get_failed");
  if (failed != MPI_GROUP_EMPTY) {
    int count = 0;
    check_code(MPI_Group_size(failed, &count), "MPI_Group_size");
    MPI_Group_free(&failed);
    if (count > 0) check_code(MPIX_Comm_revoke(handle), "MPIX_Comm_revoke");
  }
#endif
  const Waiting others;
  check_code(MPI_Barrier(handle), "MPI_Barrier");
}

}  // namespace bitrift::mpi
