// Inside mpi/ only: MPI's return codes as exceptions, and its communicators as ours.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include "mpi/communicator.h"

namespace bitrift::mpi {

/// Throws RankFailed or Error(internal) unless code is MPI_SUCCESS; the text names the call.
void check_code(int code, const char* call);
/// Whether a code says that a rank died, or that the communicator was revoked after one had.
[[nodiscard]] bool is_rank_failure(int code) noexcept;

/// A communicator that MPI made. It is never freed: freeing is collective, and a rank that leaves by an
/// exception cannot take part.
///
/// A barrier on it must follow. When a rank dies while others are still making a communicator with it, Open
/// MPI (5.0) marks the unfinished one as failed, and reads through a null pointer there. After the barrier no
/// rank is making it any more, so that no rank that ends in code of ours brings the others down.
[[nodiscard]] Communicator communicator_of(MPI_Comm handle);

}  // namespace bitrift::mpi
