// Runs bitrift-train and reads its result.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/process/subprocess.h"
#include "record/json/json.h"

namespace bitrift::study {

struct TrainerRun {
  record::Json result;
  double wall = 0;  ///< seconds from its start to its end
};

/// Runs a command of bitrift-train to its end with --json; `output` is replaced by what it prints. Throws as
/// run_program() does.
[[nodiscard]] TrainerRun run_to_json(Command command, const std::filesystem::path& output);

/// The JSON that a program printed with --json, after its log.
[[nodiscard]] record::Json printed_json(const std::filesystem::path& output);

/// `bitrift-train resume FROM` with these options: serially, or as a pipeline of this many stages.
[[nodiscard]] Command resume_in_stages(const std::filesystem::path& trainer,
                                       const std::filesystem::path& from, int stages,
                                       const std::vector<std::string>& options);

/// The same with this many data-parallel replicas. shard_optimizer: they shard the optimizer state.
[[nodiscard]] Command resume_as_replicas(const std::filesystem::path& trainer,
                                         const std::filesystem::path& from, int replicas,
                                         bool shard_optimizer, const std::vector<std::string>& options);

}  // namespace bitrift::study
