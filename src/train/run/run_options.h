// How far a run goes, and who watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/fault/compute_fault.h"
#include "record/fault/failed_link.h"
#include "record/fault/link_fault.h"
#include "record/fault/process_fault.h"
#include "record/recovery.h"
#include "record/run.h"
#include "train/recover/position.h"
#include "train/run/trace.h"
#include "train/state/checkpoint_clock.h"

namespace bitrift::train {

/// States of a run at chosen steps: kept for later runs, or compared with those kept (docs/propagation.md).
struct ChosenStates {
  std::vector<std::int64_t> steps;  ///< ascending, since the resume; 0: as loaded
  bool optimizer = false;           ///< optimizer/ as well as model/
  bool keep = false;                ///< instead of what was kept before; else compare
};

/// How far to run, and who watches.
struct RunOptions : Terms {
  std::string id = {};          ///< echoed in the result
  bool check_replicas = false;  ///< compare all replicas' state digests after every step
  Trace* trace = nullptr;       ///< on rank 0 only; all other ranks set `tracing`
  bool tracing = false;         ///< the same on all ranks
  /// Remember this run, step by step, for later ones with early_end, instead of what was remembered before of
  /// the same order. It goes to its end whatever early_end says.
  bool keep_golden = false;
  std::optional<ChosenStates> states = {};  ///< what is compared must have been kept
  /// For a team that may lose members: ranks that fail during the run, the file in which they leave the time
  /// of that, and the command that starts another process of this program.
  std::vector<record::ProcessFault> process_faults = {};
  std::vector<record::LinkFault> link_faults = {};    ///< of a run on a mesh
  std::vector<record::FailedLink> failed_links = {};  ///< the same
  std::vector<record::ComputeFault> compute_faults = {};
  std::filesystem::path death_note = {};
  std::vector<std::string> command = {};
  std::optional<record::Relaunch> relaunched = {};  ///< the loss after which the job was launched again
  /// Where rank 0 keeps what is in no checkpoint of the run so far, for a job that is launched again from the
  /// last one; "": nowhere, and such a job's result covers its own part only.
  std::filesystem::path ledger_folder = {};
  std::filesystem::path start_file = {};  ///< checkpoint that holds the state at the start; "": none does
  /// Writes a checkpoint, to Terms::saves_to if that names a file, and returns its file; collective over
  /// those who work, ranks that joined included. When: see RecoverySpec::checkpoint_every and
  /// choose_interval.
  std::function<std::filesystem::path(const std::string& saves_to)> checkpoint = {};
  /// Called once, if a checkpoint is to come: after the first step, whose memory is then taken. Local.
  std::function<void()> before_checkpoints = {};
  /// How many of the last checkpoints a job may be launched again from.
  std::size_t ledgers_kept = 1;
  std::shared_ptr<CheckpointClock> clock =
      {};  ///< keeps the times of steps and checkpoints, where there is one
  /// Rank 0's clock chooses when to write a checkpoint. Not in a team that may lose members.
  bool choose_interval = false;
  std::function<void()> save = {};          ///< at the end of a run that is done; collective over the same
  std::function<void()> before_first_step;  ///< or before the evaluation when no step is asked for
  /// Whether this rank was asked to end the run after the step in progress, as if it had its last step there,
  /// but without a last evaluation (see RunResult::left_undone). One rank is enough. Local.
  std::function<bool()> asked_to_leave = {};
  std::function<void(const record::Evaluation&)> on_evaluation = {};  ///< replica 0's, on rank 0
  /// Tells the result to the caller's caller. In a team that may lose members one rank calls this after the
  /// save, and another one if that rank dies before it has. Empty: the result is told after the run.
  std::function<void(const record::RunResult&)> report = {};
  std::function<bool()> reported = {};  ///< whether some rank has; empty: not known
};

}  // namespace bitrift::train
