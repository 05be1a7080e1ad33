// The baseline of all recoveries: the job ends, and starts again from its last checkpoint file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/recovery.h"

namespace bitrift::cli {

/// Runs the job, and again for as long as it loses a rank and then comes further than the time before. words:
/// of the command line; each new start gets `--relaunched FILE` where the job wrote a checkpoint to `output`,
/// a file or a folder, else `--relaunched-from-start`, and none of the kills. longest_silence: see Job.
/// Returns the exit code.
[[nodiscard]] int run_with_relaunches(int ranks, const std::vector<std::string>& words,
                                      const std::filesystem::path& output, double longest_silence);

/// In a process of a job that was launched again: from what. checkpoint: "" where it starts from where the
/// run began.
[[nodiscard]] record::Relaunch this_relaunch(int ranks, const std::filesystem::path& checkpoint);

/// Where a job that may be launched again keeps its ledgers; "": this is no such job.
[[nodiscard]] std::filesystem::path ledger_folder();
/// Where ranks leave word before they fail: the file that the launching process names, or one of the job's
/// own.
[[nodiscard]] std::filesystem::path death_note_file();

}  // namespace bitrift::cli
