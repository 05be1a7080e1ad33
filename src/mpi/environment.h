// The life of MPI in a process.
#pragma once

#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace bitrift::mpi {

/// Whether mpirun or srun started this process (PMIx, Open MPI or PMI variables are set). Needs no MPI.
[[nodiscard]] bool started_by_launcher() noexcept;
/// How many ranks the launcher started, if its variables say so; 0 when unknown.
[[nodiscard]] int launched_ranks() noexcept;
/// This process's rank by the same variables; 0 when unknown.
[[nodiscard]] int launched_rank() noexcept;

/// Options of this MPI's mpirun for bitrift: ranks may outnumber cores and are not bound to them.
/// exit_codes_are_mine: mpirun does not treat a rank that leaves in order with an exit code other than 0 as a
/// failure, and then neither reports it nor passes the code on (Open MPI 5 and later; other libraries have no
/// such option). Needs no MPI at run time.
[[nodiscard]] std::vector<std::string> launcher_options(bool exit_codes_are_mine);

/// Whether this MPI library says that messages may be in the memory of a CUDA device. Needs no MPI at run
/// time.
[[nodiscard]] bool reads_device_memory() noexcept;

/// MPI_Init_thread(FUNNELED) and MPI_Finalize around a scope. Errors return (MPI_ERRORS_RETURN) and are
/// thrown. SIGPIPE is ignored where survives_failures() (survivors.h). A process that no launcher started
/// gets no MPI: its world is one rank, and it starts 50 ms or more sooner.
class Environment {
 public:
  /// Throws Error(internal) with MPI's text.
  Environment();
  /// Finalizes, unless an exception leaves a world of several ranks: then MPI_Finalize would wait for peers
  /// that may be stuck, and the caller decides (see abort()).
  ~Environment();
  Environment(Environment&&) = delete;
  Environment& operator=(Environment&&) = delete;

  [[nodiscard]] const Communicator& world() const noexcept { return world_; }
  /// Calls MPI_Finalize now; throws on failure. Later calls do nothing.
  void finalize();
  /// Ends all ranks: MPI_Abort, or exit(code) without MPI. For a `main` only.
  [[noreturn]] void abort(int code);
  /// Ends this process of a world that lost ranks, in which MPI_Finalize may hang: waits for the survivors,
  /// flushes buffered output, and exits without finalizing. For a `main` only.
  [[noreturn]] void leave(int code, const Communicator& survivors) noexcept;
  /// "Open MPI v5.0.11, ..." on one line; "none" without MPI.
  [[nodiscard]] std::string library() const;

 private:
  bool active_ = false;
  Communicator world_;
};

}  // namespace bitrift::mpi
