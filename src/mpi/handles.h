// The contents of the types of communicator.h. Inside mpi/ only.
#pragma once

#include <cstdint>
#include <memory>

#include <mpi.h>

namespace bitrift::mpi {

struct CommunicatorHandle {
  MPI_Comm handle = MPI_COMM_NULL;
  std::uint32_t exchanges = 0;  ///< number of collective calls that were begun: the same on all ranks as long
                                ///< as none failed
};

/// Takes over a communicator that MPI made: its errors return. It is never freed: freeing is collective, and
/// a rank that leaves by an exception cannot take part.
[[nodiscard]] std::shared_ptr<CommunicatorHandle> adopt(MPI_Comm handle);

/// A barrier, which must follow right after MPI made a communicator, because Open MPI (5.0) has two bugs
/// there. If one rank learns of a death while another is still making the communicator, that other one may
/// crash in a null pointer. After the barrier no rank is making it any more, so a rank that dies in bitrift's
/// own code does not bring the others down. Calls also wait for ever for a rank whose death was noticed
/// before the communicator existed: so it is revoked if a dead rank belongs to it. Throws RankFailed then.
void settle(MPI_Comm handle);

struct RequestHandle {
  MPI_Request handle = MPI_REQUEST_NULL;
};

}  // namespace bitrift::mpi
