// The subcommands of `bitrift`: each adds itself to the command line. The callback of a subcommand throws
// bitrift::Error or sets the exit code through ExitCode.
#pragma once

#include <CLI/CLI.hpp>

namespace bitrift::cli {

/// The checkpoints that ls, inject, undo, diff and verify take.
inline constexpr const char* checkpoint_file =
    "HDF5, safetensors, npz, PyTorch (.pt) or Keras (.keras) file, or a checkpoint in several files: its "
    "folder or index";

/// Last line of the help of a command that has no negative result.
inline constexpr const char* exit_codes =
    "Exit codes: 0 success, 2 usage or input error, 3 internal error in bitrift";
/// And of one that checks the runs whose outcome is known.
inline constexpr const char* checking_exit_codes =
    "Exit codes: 0 success, 1 a control or canary run did not end as required, so no result is given, 2 "
    "usage "
    "or "
    "input error, 3 internal error in bitrift";

/// Exit code of the program unless an Error is thrown: 0 success, 1 negative result.
struct ExitCode {
  int value = 0;
};

void add_ls(CLI::App& app, ExitCode& exit_code);
void add_inject(CLI::App& app, ExitCode& exit_code);
void add_undo(CLI::App& app, ExitCode& exit_code);
void add_diff(CLI::App& app, ExitCode& exit_code);
void add_verify(CLI::App& app, ExitCode& exit_code);
void add_repair(CLI::App& app, ExitCode& exit_code);
void add_seal(CLI::App& app);
void add_campaign(CLI::App& app, ExitCode& exit_code);
/// Subcommands of `campaign`.
void add_list(CLI::App& parent, ExitCode& exit_code);
void add_merge(CLI::App& parent, ExitCode& exit_code);
void add_show(CLI::App& parent, ExitCode& exit_code);
void add_compare(CLI::App& app, ExitCode& exit_code);
/// report: becomes the Python that writes the page.
void add_html_report(CLI::App& app);
void add_gate(CLI::App& app, ExitCode& exit_code);
void add_analyze(CLI::App& app, ExitCode& exit_code);
/// mesh plan, verify, bound, model and table.
void add_mesh(CLI::App& app, ExitCode& exit_code);
void add_doctor(CLI::App& app, ExitCode& exit_code);
void add_completion(CLI::App& app, ExitCode& exit_code);
/// exec-worker and exec-guard: what the driver starts for runner.exec; not shown in the help.
void add_exec(CLI::App& app, ExitCode& exit_code);

}  // namespace bitrift::cli
