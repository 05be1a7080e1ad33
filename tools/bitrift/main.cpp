// bitrift: everything that needs neither LibTorch nor MPI.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "commands.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text/nearest_word.h"
#include "output.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

int complain(const std::string& text, int exit_code) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  fmt::print(stderr, "bitrift: error: {}\n", printable(line));
  return exit_code;
}

/// Every place that takes what a file claims says how much; this is what is left.
int complain_about_memory() {
  return complain("not enough memory; request less at once, or use a machine with more memory", 2);
}

int complain_about_call(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "bitrift";
  const CLI::App* level = &app;
  while (!level->get_subcommands().empty()) {
    level = level->get_subcommands().front();
    command += " " + level->get_name();
  }
  std::vector<std::string> known;
  for (const CLI::App* one : level->get_subcommands(nullptr)) {
    if (!one->get_group().empty()) known.push_back(one->get_name());
  }
  const auto rest = app.remaining(true);
  if (!known.empty() && !rest.empty() && !rest.front().starts_with('-')) {
    const std::string nearest = nearest_word(rest.front(), known);
    return complain(fmt::format("unknown command '{}'{} (see {} --help)", rest.front(),
                                nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest), command),
                    2);
  }
  return complain(fmt::format("{} (see {} --help)", error.what(), command), 2);
}

int run(int count, char** arguments) {
  CLI::App app(
      "Inject bit faults into HDF5 checkpoints, resume training from them, and classify the outcomes.",
      "bitrift");
  app.set_version_flag("--version", std::string("bitrift ") + record::bitrift_version());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 success, 1 negative result (the help of each command says which), 2 usage or input "
      "error, "
      "3 internal error in bitrift");
  ExitCode exit_code;
  add_ls(app, exit_code);
  add_inject(app, exit_code);
  add_undo(app, exit_code);
  add_diff(app, exit_code);
  add_verify(app, exit_code);
  add_repair(app, exit_code);
  add_seal(app);
  add_campaign(app, exit_code);
  add_analyze(app, exit_code);
  add_compare(app, exit_code);
  add_html_report(app);
  add_gate(app, exit_code);
  add_mesh(app, exit_code);
  add_doctor(app, exit_code);
  add_completion(app, exit_code);
  add_exec(app, exit_code);
  try {
    app.parse(count, arguments);
    return exit_code.value;
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    return complain_about_call(app, error);
  }
}

}  // namespace
}  // namespace bitrift::cli

int main(int count, char** arguments) {
  // A file size limit is then an error that write(2) returns, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  using namespace bitrift;
  try {
    start_logging("bitrift");
    cli::set_command_line(count, arguments);
    return cli::run(count, arguments);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::internal) return cli::complain(error.what(), error.exit_code());
    return cli::complain(
        fmt::format("{}; this is an internal error in bitrift {}; please report it with the command: {}",
                    error.what(), record::bitrift_version(), fmt::join(cli::command_line(), " ")),
        error.exit_code());
  } catch (const std::bad_alloc&) {
    return cli::complain_about_memory();
  } catch (const std::length_error&) {
    return cli::complain_about_memory();
  } catch (const std::exception& error) {
    return cli::complain(
        fmt::format("{}; this is an internal error in bitrift {}; please report it with the command: {}",
                    error.what(), record::bitrift_version(), fmt::join(cli::command_line(), " ")),
        3);
  }
}
