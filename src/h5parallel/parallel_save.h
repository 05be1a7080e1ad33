// One HDF5 file that several ranks write with HDF5's parallel interface, which uses MPI-IO.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "h5parallel/rank_part.h"
#include "mpi/communicator.h"

namespace bitrift::h5parallel {

/// How ranks write the elements of a dataset. Its structures are always written together.
enum class Transfer {
  collective,   ///< all ranks in one call; MPI-IO may gather the bytes at some of the ranks
  independent,  ///< each rank alone
};
constexpr EnumNames<2> names_of(Transfer) { return {"transfer", {"collective", "independent"}}; }

/// Writes a new file in place of `target`, and returns the seconds that it took: from the moment when all
/// ranks have come here until the disk has the file under its name and all ranks know. The tensors are
/// contiguous datasets, whose space is allocated at once and not filled.
///
/// Collective. parts: the same tensors on all ranks. temporary: the file's name until it is complete, in the
/// same file system; all ranks must see it. No other program may lock it, because Open MPI locks it for
/// each write and would wait forever. Throws mpi::AgreedError on all ranks where the complete file cannot
/// become the target. Any other Error may be that of one rank, for which the others wait: the caller must
/// then end them all.
[[nodiscard]] double save(const mpi::Communicator& ranks, const std::vector<TensorPart>& parts,
                          const std::filesystem::path& temporary, const std::filesystem::path& target,
                          Transfer transfer);

/// "1.10.8"
[[nodiscard]] std::string hdf5_version();

}  // namespace bitrift::h5parallel
