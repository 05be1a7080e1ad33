// A campaign from its start, or from wherever it stopped, to its last trial.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/progress/progress.h"
#include "campaign/shard/shards.h"

namespace bitrift::campaign {

struct RunOptions {
  std::filesystem::path spec;
  std::filesystem::path folder;
  std::vector<std::string> overrides;             ///< key=value
  std::vector<std::string> drills;                ///< see parse_drills
  std::optional<int> workers;                     ///< number of groups at the same time; absent: as many as
                                                  ///< the cores hold
  std::vector<std::string> command;               ///< for the provenance
  std::optional<std::filesystem::path> work_dir;  ///< for private copies; absent: see WorkPlace
  bool extend = false;              ///< the spec adds draws, strata or arms to that of the folder
  bool audit = false;               ///< asks whether the script's resume is an uninterrupted training
  bool ignore_space = false;        ///< starts although the disk looks too small
  std::optional<double> max_hours;  ///< the deadline of this start, counted from its first moment
  std::optional<ShardId> shard;     ///< the folder is shared with the drivers of the other shards
  Patience patience;                ///< with them
};

struct RunReport {
  std::vector<std::string> problems;  ///< why the results cannot be trusted; empty when all is well
  std::string remedy;                 ///< with problems: a command that finds the reason; "" if there is none
  std::size_t incidents = 0;          ///< of this start
  std::string unfinished;             ///< why it ended before its plan; "" if it did not
  bool judged = false;                ///< controls and canaries are complete and behave
  bool joined = true;                 ///< DIR/trials.jsonl holds all rows
};

/// Runs the campaign: base, controls, clean runs, canaries, trials. Runs that the journal already holds are
/// not repeated. Throws Error, and Interrupted after SIGINT, SIGTERM or SIGHUP; nothing recorded is lost
/// then, and no process is left.
[[nodiscard]] RunReport run_campaign(const RunOptions& options, Progress& progress);

}  // namespace bitrift::campaign
