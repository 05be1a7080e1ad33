// The options that say when a run writes checkpoints, and which of them stay.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "record/recovery.h"
#include "spec/checkpoint_policy.h"

namespace bitrift::cli {

struct CheckpointArguments {
  std::optional<std::string> every, mode, writer;
  std::optional<int> keep;
  std::optional<double> mean_time_between_failures;
};

/// Throws Error(bad_input) that names the first option that does nothing without -o.
void refuse_without_output(const CheckpointArguments& arguments);

void add_checkpoint_options(CLI::App* command, CheckpointArguments& arguments);

/// `policy`, that of a spec, with what the command line says instead: another --checkpoint-every starts
/// without the spec's mode and mean time between failures where it has no use for them. Throws
/// Error(bad_input) for what does not fit together.
[[nodiscard]] record::CheckpointPolicy chosen_checkpoints(const CheckpointArguments& arguments,
                                                          record::CheckpointPolicy policy);

/// Sets recovery.checkpoint_every. Throws Error(bad_input) for what does not fit this recovery.
void add_checkpoints(record::RecoverySpec& recovery, const record::CheckpointPolicy& policy);

}  // namespace bitrift::cli
