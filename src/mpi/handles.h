// What the types of communicator.h hold. Inside mpi/ only.
#pragma once

#include <cstdint>
#include <memory>

#include <mpi.h>

namespace bitrift::mpi {

struct CommunicatorHandle {
  MPI_Comm handle = MPI_COMM_NULL;
  std::uint32_t exchanges = 0;  ///< collective calls that were begun: the same on all ranks while none failed
};

/// Takes over a communicator that MPI made: its errors return. It is never freed: freeing is collective, and
/// a rank that leaves by an exception cannot take part.
[[nodiscard]] std::shared_ptr<CommunicatorHandle> adopt(MPI_Comm handle);

/// A barrier, which must follow right after MPI made a communicator, because Open MPI (5.0) has two flaws
/// there. A death that one rank learns of while another is still making the communicator may crash that other
/// one, in a null pointer: after the barrier no rank is making it any more, so a rank that dies in bitrift's
/// own code does not bring the others down. And calls wait for ever for a rank whose death was noticed
/// earlier than the communicator was there: so it is revoked if a dead rank belongs to it. Throws RankFailed
/// then.
void settle(MPI_Comm handle);

struct RequestHandle {
  MPI_Request handle = MPI_REQUEST_NULL;
};

}  // namespace bitrift::mpi
