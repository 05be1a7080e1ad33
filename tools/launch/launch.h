// Starting this program again under mpirun.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/hang_watch.h"

namespace bitrift::cli {

/// How a job ended.
struct JobEnd {
  int code = 0;
  bool lost = false;             ///< no rank said how it ended: one of them was lost
  bool began = false;            ///< see say_begun(); of no meaning where no rank says it
  std::optional<int> word = {};  ///< the code that a rank left, whatever happened to the others after that
  int launcher_signal = 0;       ///< that ended mpirun itself, and with it all ranks
  std::optional<mpi::Steps> steps = {};  ///< if Job::tells_steps: see HangWatch::furthest()
  /// If the job was lost and no rank was ever seen on this machine: how mpirun ended, as a clause. Too few
  /// slots are one reason; or all ranks were on other machines.
  std::string no_start = {};
};

/// A job for mpirun.
struct Job {
  int ranks = 1;
  /// For mpirun, in addition to the usual ones. With any, the job survives failures.
  std::vector<std::string> options;
  std::vector<std::string> arguments;  ///< of this program
  HangLimit hang_limit = {};           ///< see HangWatch
  bool may_leave = false;              ///< once they have begun, ranks save and end when they are asked to
  bool tells_steps = false;            ///< whether JobEnd::steps is wanted of a job that was lost
};

/// Replaces this process with mpirun. Nobody watches the ranks. Throws Error(not_found) when there is no
/// mpirun.
[[noreturn]] void become_mpirun(const Job& job);

/// The same as a child: returns the exit code that rank 0 left with (see leave_exit_code), or mpirun's own
/// when the ranks ended otherwise. SIGINT, SIGTERM and SIGHUP end the
/// child: the code is then 128 + the signal, as a shell would say, and a line names it. Where the ranks may
/// leave, SIGTERM and SIGUSR1 ask them to instead (asked_by_driver); SIGUSR1 before they begin ends the
/// child, with the code EX_TEMPFAIL.
[[nodiscard]] JobEnd run_mpirun(const Job& job);

/// How often run_until_begun() starts the ranks.
inline constexpr int start_tries = 5;

/// The same for ranks that survive failures: a job that loses a rank before say_begun() is started again.
/// Besides ranks that something kills, Open MPI 5.0.11 can crash in MPI_Init when its failure detector is on:
/// a rank that is done sends a heartbeat to one that cannot read it yet (about one start in ten of 4 ranks on
/// 2 cores).
[[nodiscard]] JobEnd run_until_begun(const Job& job);

/// The word of one rank to run_mpirun: mpirun would report any exit code but 0 with six lines of its own, and
/// reports 0 when ranks were lost.
void leave_exit_code(int code) noexcept;
/// The word of a rank to run_mpirun that it is going to end itself by SIGKILL, because of an error that it
/// has told, and not of one in this program.
void say_given_up() noexcept;
/// Whether some rank has left it. False where run_mpirun did not start the job, or did so on another machine.
[[nodiscard]] bool exit_code_left() noexcept;
/// The word of a rank to run_mpirun that all ranks have met and hold their state: from here on, they recover
/// by themselves.
void say_begun() noexcept;
/// Whether run_mpirun asks the ranks to save and end. It cannot ask those on other machines, but one is
/// enough.
[[nodiscard]] bool asked_by_driver() noexcept;
/// Whether run_mpirun started this rank.
[[nodiscard]] bool launched_by_us() noexcept;
/// The rank's side of Job::hang_limit.
void show_pulse_to_driver() noexcept;

}  // namespace bitrift::cli
