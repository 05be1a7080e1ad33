// The subcommands of `bitrift`: each adds itself to the command line. A subcommand's callback throws
// bitrift::Error or sets the exit code through ExitCode.
#pragma once

#include <CLI/CLI.hpp>

namespace bitrift::cli {

/// What the program will exit with when nothing is thrown: 0 yes or done, 1 no.
struct ExitCode {
  int value = 0;
};

void add_ls(CLI::App& app, ExitCode& exit_code);
void add_inject(CLI::App& app, ExitCode& exit_code);
void add_undo(CLI::App& app, ExitCode& exit_code);
void add_diff(CLI::App& app, ExitCode& exit_code);
void add_campaign(CLI::App& app, ExitCode& exit_code);
/// Subcommands of `campaign`.
void add_list(CLI::App& parent, ExitCode& exit_code);
void add_merge(CLI::App& parent, ExitCode& exit_code);
void add_analyze(CLI::App& app, ExitCode& exit_code);
void add_doctor(CLI::App& app, ExitCode& exit_code);
/// exec-worker and exec-guard: what the driver starts for runner.exec; not shown in the help.
void add_exec(CLI::App& app, ExitCode& exit_code);

}  // namespace bitrift::cli
