// The command checkpoint-study.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace bitrift::cli {

struct StudyArguments {
  std::string spec, folder, drill;
  bool json = false;
  std::vector<std::string> command;  ///< the whole command line, for provenance
};

/// footer: what the help of every command ends with.
CLI::App* add_checkpoint_study(CLI::App& app, StudyArguments& arguments, const std::string& footer);

/// Exit codes: 0 done, 1 canaries misbehave, 2 interrupted. Everything else is thrown.
[[nodiscard]] int checkpoint_study(const StudyArguments& arguments);

}  // namespace bitrift::cli
