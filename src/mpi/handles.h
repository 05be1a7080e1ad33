// What the types of communicator.h hold. Inside mpi/ only.
#pragma once

#include <mpi.h>

namespace bitrift::mpi {

struct CommunicatorHandle {
  MPI_Comm handle = MPI_COMM_NULL;
};

struct RequestHandle {
  MPI_Request handle = MPI_REQUEST_NULL;
};

}  // namespace bitrift::mpi
