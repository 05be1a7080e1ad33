// The baseline of all recoveries: the job ends, and starts again from its last checkpoint file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launch/launch.h"
#include "record/recovery.h"

namespace bitrift::cli {

/// Runs the job, and again for as long as it loses a rank and then comes further than the time before. Each
/// new start gets `--relaunched FILE` where the job wrote a checkpoint to `output`, a file or a folder, else
/// `--relaunched-from-start`, and none of the kills. Returns the exit code.
[[nodiscard]] int run_with_relaunches(Job job, const std::filesystem::path& output);

/// In a process of a job that was launched again: from what. checkpoint: "" where it starts from where the
/// run began.
[[nodiscard]] record::Relaunch this_relaunch(int ranks, const std::filesystem::path& checkpoint);

/// Where a job that may be launched again keeps its ledgers; "": this is no such job.
[[nodiscard]] std::filesystem::path ledger_folder();
/// Where ranks leave word before they fail: the file that the launching process names, or one of the job's
/// own.
[[nodiscard]] std::filesystem::path death_note_file();

}  // namespace bitrift::cli
