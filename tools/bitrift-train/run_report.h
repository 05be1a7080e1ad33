// What a run prints when it is over.
#pragma once

#include <filesystem>
#include <optional>

#include "commands.h"
#include "record/run.h"

namespace bitrift::cli {

/// What was loaded and saved, where something was.
struct Saved {
  std::optional<double> load_seconds = {};
  std::optional<double> seconds = {};           ///< of the last save
  std::filesystem::path file = {};              ///< that it wrote
  std::optional<record::Json> on_the_way = {};  ///< see train::CheckpointClock::report()
};

/// The evaluations and the state digest, and how the run recovered where a rank failed; as JSON with --json.
void report(const Arguments& arguments, const record::Parallel& parallel, const record::RunResult& result,
            const Saved& saved);

}  // namespace bitrift::cli
