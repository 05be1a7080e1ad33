// What a run needs before it begins, and the ranks that it runs on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "commands.h"
#include "mpi/environment.h"
#include "output_place.h"
#include "record/fault/compute_fault.h"
#include "sink/format/write_format.h"
#include "train/recover/team.h"

namespace bitrift::nn {
class Dataset;
}

namespace bitrift::cli {

/// What a run needs, as far as it is known before LibTorch and MPI are set to work.
struct Plan {
  record::TrainingSpec spec;
  record::Parallel parallel = {};
  std::shared_ptr<const nn::Dataset> data = {};
  std::optional<ckpt::Reader> checkpoint = {};  ///< resume
  double opening_seconds = 0;                   ///< of it
  record::RecoverySpec recovery = {};
  HangLimit hang_limit = {};
  std::vector<record::ProcessFault> kills = {};
  LinkPlan links = {};                             ///< each of which exists
  std::vector<record::ComputeFault> strikes = {};  ///< the same
  record::CheckpointPolicy checkpoints = {};
  OutputPlace output = {};
  ckpt::WriteFormat format = ckpt::WriteFormat::hdf5;  ///< of what is written
  std::optional<std::int64_t> start_step = {};         ///< resume: progress/step
  bool continues_folder = false;                       ///< resume: from the folder that is written
};

/// How a plan is made.
struct Planning {
  /// Before each make_plan(): without ranks in a process that may start them, else collective over them.
  std::function<void(const mpi::Communicator* ranks)> prepare = {};
  std::function<Plan()> make_plan;
};

/// Makes a plan, before MPI starts unless a launcher did that already, and runs work with it on this rank.
/// Without a launcher several ranks are left to mpirun. Returns the exit code.
int in_planned_world(const Arguments& arguments, const Planning& planning,
                     const std::function<int(mpi::Environment&, Plan&)>& work);
/// Runs work on this rank of the world. Errors on which all ranks agree are printed once and leave in order;
/// a rank that fails alone ends all of them.
int in_world(const std::function<int(mpi::Environment&)>& work);

/// The command that starts another process of this program.
[[nodiscard]] std::vector<std::string> own_command(const Arguments& arguments);

/// The ranks that work, those that wait and those that join.
[[nodiscard]] train::Team surviving_team(const mpi::Environment& environment, int ranks);
/// Throws mpi::AgreedError(bad_input) where this MPI cannot do what the plan asks for.
[[nodiscard]] train::Team team_of(const mpi::Environment& environment, const Plan& plan);

}  // namespace bitrift::cli
