// A rank whose launcher is gone.
#pragma once

namespace bitrift::mpi {

/// From now on, this process ends two seconds after its parent does: mpirun, mpirun's daemon on this machine,
/// or Slurm's. A rank that is in MPI notices by itself that they are gone; this is for one that calculates or
/// waits elsewhere, and that nobody else would end. Does nothing where pidfd_open(2) is missing (Linux before
/// 5.3).
void end_with_launcher() noexcept;

}  // namespace bitrift::mpi
