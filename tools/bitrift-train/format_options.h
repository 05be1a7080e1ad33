// The option that names the format of the checkpoints that a run writes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "record/recovery.h"
#include "sink/format/write_format.h"
#include "spec/checkpoint_policy.h"
#include "spec/training_spec.h"

namespace bitrift::cli {

struct FormatArguments {
  std::optional<std::string> format;
};

void add_format_option(CLI::App* command, FormatArguments& arguments);

/// What the option says or, without it, the extension of the file.
[[nodiscard]] ckpt::WriteFormat chosen_format(const FormatArguments& arguments,
                                              const std::filesystem::path& output);

/// Throws Error(bad_input) where the format cannot hold the spec's state, or what the run is to do with its
/// checkpoints.
void check_format(ckpt::WriteFormat format, const std::filesystem::path& output,
                  const record::TrainingSpec& spec, record::SaveWriter writer, record::RecoveryKind recovery);

}  // namespace bitrift::cli
