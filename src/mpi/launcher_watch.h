// A rank whose launcher is gone.
#pragma once

namespace bitrift::mpi {

/// From now on, this process ends two seconds after its parent, which is mpirun, its daemon on this machine
/// or Slurm's: with that it has lost its job. Ranks in MPI notice it themselves; this is for one that
/// calculates or waits elsewhere, which nobody would end any more. Does nothing where pidfd_open(2) is
/// missing (Linux before 5.3).
void end_with_launcher() noexcept;

}  // namespace bitrift::mpi
