// Inside mpi/ only: MPI's return codes as exceptions.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

namespace bitrift::mpi {

/// Throws RankFailed or Error(internal) unless code is MPI_SUCCESS; the text names the call.
void check_code(int code, const char* call);
/// Whether a code means that a rank died, or that the communicator was revoked after a death.
[[nodiscard]] bool is_rank_failure(int code) noexcept;

}  // namespace bitrift::mpi
