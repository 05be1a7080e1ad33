// The options that switch guards on for a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "record/run.h"
#include "spec/training_spec.h"

namespace bitrift::cli {

struct GuardArguments {
  std::vector<std::string> guards;  ///< "NAME" or "NAME=VALUE"
  std::optional<std::string> on_alarm;
  std::optional<std::int64_t> rollback_every;
};

void add_guard_options(CLI::App* command, GuardArguments& arguments);

/// The spec's guards with what the command line adds. Throws Error(bad_input).
void choose_guards(const GuardArguments& arguments, record::TrainingSpec& spec);

/// A line for each of the first ten alarms.
void warn_of_alarms(const record::RunResult& result);

}  // namespace bitrift::cli
