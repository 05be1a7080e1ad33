// What the types of communicator.h hold. Inside mpi/ only.
#pragma once

#include <memory>

#include <mpi.h>

namespace bitrift::mpi {

struct CommunicatorHandle {
  MPI_Comm handle = MPI_COMM_NULL;
};

/// Takes over a communicator that MPI made: its errors return. It is never freed: freeing is collective, and
/// a rank that leaves by an exception cannot take part.
///
/// A barrier on it must follow. When a rank dies while others are still making a communicator with it, Open
/// MPI (5.0) marks the unfinished one as failed, and reads through a null pointer there. After the barrier no
/// rank is making it any more, so a rank that dies in bitrift's own code does not bring the others down.
[[nodiscard]] std::shared_ptr<CommunicatorHandle> adopt(MPI_Comm handle);

struct RequestHandle {
  MPI_Request handle = MPI_REQUEST_NULL;
};

}  // namespace bitrift::mpi
