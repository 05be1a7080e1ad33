// `bitrift-train serve`: takes run after run from a driver without leaving the process (docs/campaign.md).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "mpi/communicator.h"
#include "record/recovery.h"
#include "spec/training_spec.h"
#include "train/recover/team.h"

namespace bitrift::train {

struct WorkerOptions {
  std::string connect;         ///< name of the driver's abstract socket
  std::filesystem::path base;  ///< the checkpoint whose copies trials alter
  record::Parallel parallel;
  /// The base's spec with the guards to use. May throw Error(bad_input).
  std::function<record::TrainingSpec(record::TrainingSpec)> choose_guards;
  std::string mpi_library;                ///< for the Ready message
  Team team;                              ///< working, waiting or newly joined ranks
  record::RecoverySpec recovery;          ///< recovery of runs that do not choose one
  std::filesystem::path death_note = {};  ///< see RunOptions
  std::vector<std::string> command = {};  ///< the same
  bool ignore_file = false;  ///< a drill: every run loads the base, whatever it was asked to load
};

/// How a worker's process is to end.
enum class WorkerEnd {
  in_order,  ///< the driver said quit, to all ranks
  at_once,   ///< with code 3 by _exit, without MPI_Finalize or MPI_Abort: the driver ends the other ranks
};

/// Every rank calls this. Connects, loads, and answers until the driver says quit. The request of a run whose
/// checkpoint is refused is answered `rejected`, and the worker continues. Any other problem on a rank is
/// reported to the driver as record::Broken; then, and when the driver hangs up, the answer is at_once. A
/// rank that is stuck when the driver hangs up is ended by HangUpWatch (sudden_end.h). Throws Error when the
/// driver cannot be reached at all.
[[nodiscard]] WorkerEnd serve(const WorkerOptions& options, const mpi::Communicator& communicator);

}  // namespace bitrift::train
