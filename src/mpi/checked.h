// Inside mpi/ only: MPI's return codes as exceptions.
#pragma once

#include <vector>

#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

namespace bitrift::mpi {

/// Throws RankFailed or Error(internal) unless code is MPI_SUCCESS; the text names the call.
void check_code(int code, const char* call);
/// The same for a call on several requests: with MPI_ERR_IN_STATUS the statuses say what happened, and the
/// death of a rank counts more than other errors.
void check_codes(int code, const std::vector<MPI_Status>& statuses, const char* call);
/// Whether a code says that a rank died, or that the communicator was revoked after one had.
[[nodiscard]] bool is_rank_failure(int code) noexcept;

}  // namespace bitrift::mpi
