// What bitrift-train says about a training before anything runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/process/subprocess.h"
#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// The training that a base resumes. source: of the campaign's spec, for messages. Throws Error(bad_input)
/// when its checkpoint holds none, and as ckpt::Reader does.
[[nodiscard]] record::TrainingSpec training_of(const record::BaseSpec& base,
                                               const std::filesystem::path& source);

/// How `bitrift-train describe --json` ended, and what it printed.
struct Description {
  std::optional<ExitStatus> status;  ///< nullopt: it took more than five minutes
  std::string document;              ///< stdout: JSON, if it succeeded
  std::string said;                  ///< the end of stderr, as log_tail() gives it
  std::string spec;                  ///< name of the training's file, which messages begin with
};
/// Describes a training under a strategy; trainer: see find_trainer().
[[nodiscard]] Description describe(const record::TrainingSpec& training, const record::Parallel& parallel,
                                   const std::filesystem::path& trainer);

}  // namespace bitrift::campaign
