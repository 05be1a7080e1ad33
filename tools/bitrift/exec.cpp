#include <memory>
#include <string>
#include <vector>

#include "campaign/launch/exec_guard.h"
#include "campaign/launch/exec_worker.h"
#include "commands.h"
#include "core/error.h"
#include "record/json/json.h"

namespace bitrift::cli {
namespace {

struct ExecArguments {
  std::string base, connect, runner, command;
};

std::vector<std::string> words_in(const std::string& text) {
  try {
    return record::Json::parse(text).at("command").get<std::vector<std::string>>();
  } catch (const record::Json::exception& error) {
    fail(ErrorCode::bad_input, "exec-guard: {}", error.what());
  }
}

}  // namespace

void add_exec(CLI::App& app, ExitCode& exit_code) {
  const auto arguments = std::make_shared<ExecArguments>();
  CLI::App* worker =
      app.add_subcommand("exec-worker", "Runs a campaign's runner.exec; started by its driver");
  worker->group("");
  worker->add_option("base", arguments->base, "The base checkpoint")->required();
  worker->add_option("--connect", arguments->connect, "The driver's socket")->required();
  worker->add_option("--runner", arguments->runner, "Command, arm and ranks as JSON")->required();
  worker->callback([arguments, &exit_code] {
    exit_code.value = campaign::run_exec_worker(
        campaign::exec_worker_options(arguments->base, arguments->connect, arguments->runner));
  });
  CLI::App* guard = app.add_subcommand("exec-guard", "Runs one command and kills what it leaves behind");
  guard->group("");
  guard->add_option("command", arguments->command, "Words as JSON")->required();
  guard->callback(
      [arguments, &exit_code] { exit_code.value = campaign::guard_command(words_in(arguments->command)); });
}

}  // namespace bitrift::cli
