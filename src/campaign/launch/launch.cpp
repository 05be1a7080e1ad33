#include "campaign/launch/launch.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "campaign/launch/script_python.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "design/kind/run/process_strata.h"

namespace bitrift::campaign {
namespace {

constexpr const char* trainer_name = "bitrift-train";
constexpr const char* own_program = "/proc/self/exe";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// mpirun refuses to work for root unless it is told twice.
std::map<std::string, std::string> launcher_environment(int ranks) {
  if (geteuid() != 0 || ranks < 2) return {};
  static bool said = false;
  if (!said)
    spdlog::info(
        "running as root: setting OMPI_ALLOW_RUN_AS_ROOT and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM for mpirun");
  said = true;
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

std::vector<std::string> wrapped(const std::string& wrapper, int ranks,
                                 const std::vector<std::string>& command) {
  if (wrapper.empty()) return command;
  std::vector<std::string> result;
  std::istringstream words(wrapper);
  for (std::string word; words >> word;) {
    if (word == "{command}") {
      result.insert(result.end(), command.begin(), command.end());
    } else {
      result.push_back(replaced(word, "{ranks}", std::to_string(ranks)));
    }
  }
  return result;
}

void add_mesh(std::vector<std::string>& arguments, const record::MeshSpec& mesh) {
  record::Json said = record::to_json(mesh);
  const comm::Topology& topology = mesh.topology;
  arguments.insert(arguments.end(),
                   {"--mesh", fmt::format("{}x{}", topology.rows(), topology.columns()), "--wrap",
                    name_of(topology.wrap()), "--schedule", name_of(mesh.schedule)});
  for (const auto& chip : said["dead"])
    arguments.insert(arguments.end(), {"--dead", chip.get<std::string>()});
  for (const auto& link : said["dead_links"])
    arguments.insert(arguments.end(), {"--dead-link", link.get<std::string>()});
}

// Every member that differs from its default: bitrift-train's options have the names of the keys.
void add_parallel(std::vector<std::string>& arguments, const record::Parallel& parallel) {
  const record::Json said = record::to_json(parallel);
  for (const auto& [key, value] : said.items()) {
    if (key == "mesh") {
      add_mesh(arguments, *parallel.mesh);
      continue;
    }
    const std::string name = key == "kind" ? "parallel" : replaced(key, "_", "-");
    arguments.push_back("--" + name);
    if (value.is_boolean()) continue;  // a flag, which is only written if it is set
    arguments.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
}

void add_guards(std::vector<std::string>& arguments, const record::GuardSpec& guards) {
  std::vector<std::string> chosen = {"none"};
  for (const auto& [guard, limit] : guards.chosen())
    chosen.push_back(limit > 0 ? fmt::format("{}={}", name_of(guard), limit) : name_of(guard));
  for (const std::string& guard : chosen) arguments.insert(arguments.end(), {"--guard", guard});
  arguments.insert(arguments.end(), {"--on-alarm", name_of(guards.on_alarm)});
  if (guards.rollback_every != 1)
    arguments.insert(arguments.end(), {"--rollback-every", std::to_string(guards.rollback_every)});
}

// Every failure uses up a process; if nothing replaces it, a worker ends after this many. A waiting process
// costs memory but no time; a start of a worker takes one to two seconds.
constexpr int usual_reserve = 8;

// Starts a command under two guards: the driver kills the process that it started, the outer guard; the inner
// one survives that and kills all descendants of the command.
std::vector<std::string> guarded(const std::string& bitrift, std::vector<std::string> command) {
  for (int i = 0; i < 2; ++i) command = {bitrift, "exec-guard", record::Json{{"command", command}}.dump()};
  return command;
}

void add_recovery(std::vector<std::string>& arguments, const design::Arm& arm, int reserve, bool detector) {
  arguments.insert(arguments.end(), {"--recovery", record::to_json(arm.recovery).dump(), "--reserve",
                                     std::to_string(reserve)});
  if (detector) arguments.emplace_back("--detector");
}

// variable: of the environment, which may name another one. else_do: what the user can do instead of setting
// it.
std::filesystem::path find_program(const char* name, const char* variable, const char* else_do) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
    if (access(named, X_OK) == 0) return std::filesystem::absolute(named);
    fail(ErrorCode::not_found, "{}={}: no such program", variable, named);
  }
  std::error_code ignored;
  auto beside = std::filesystem::read_symlink(own_program, ignored).parent_path() / name;
  if (access(beside.c_str(), X_OK) == 0) return beside;
  const char* search = std::getenv("PATH");
  std::istringstream folders(search == nullptr ? "" : search);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto candidate = std::filesystem::path(folder.empty() ? "." : folder) / name;
    if (access(candidate.c_str(), X_OK) == 0) return std::filesystem::absolute(candidate);
  }
  fail(ErrorCode::not_found, "{} is neither beside this program nor on PATH: {} or set {}", name, else_do,
       variable);
}

}  // namespace

int Processes::needed_for_trial(int failing) const noexcept {
  return working + (reserve > 0 ? std::max(spare, failing) : spare);
}

Processes processes_of(const design::Arm& arm, int failing) {
  Processes processes{arm.parallel.ranks};
  if (failing == 0) return processes;
  using record::RecoveryKind;
  const record::RecoverySpec& recovery = arm.recovery;
  processes.spare = recovery.spares;
  const bool used_up = recovery.kind == RecoveryKind::shrink || recovery.kind == RecoveryKind::spare ||
                       (recovery.kind == RecoveryKind::restart && recovery.spares > 0);
  if (used_up) processes.reserve = std::max(usual_reserve, failing);
  return processes;
}

std::filesystem::path find_trainer() {
  return find_program(trainer_name, "BITRIFT_TRAIN_PROGRAM", "build it (BITRIFT_TRAIN=ON)");
}

std::filesystem::path find_bitrift() { return find_program("bitrift", "BITRIFT_PROGRAM", "build it"); }

Command serve_command(const Launch& launch, const design::Arm& arm, const std::string& socket_name,
                      const std::filesystem::path& log, const std::filesystem::path& scratch) {
  std::vector<std::string> arguments = {launch.program.string(), "serve", launch.base.string(), "--connect",
                                        socket_name};
  const record::Parallel& parallel = arm.parallel;
  add_parallel(arguments, parallel);
  if (arm.guards) add_guards(arguments, *arm.guards);
  if (launch.ignore_file) {
    arguments.emplace_back("--drill");
    arguments.emplace_back("ignore-file");
  }
  const Processes processes = processes_of(arm, launch.failing);
  if (launch.failing > 0) add_recovery(arguments, arm, processes.reserve, launch.detector);
  auto environment = launcher_environment(processes.all());
  if (!scratch.empty()) {
    environment["TMPDIR"] = scratch.string();
    environment["OMPI_MCA_btl_sm_backing_directory"] = scratch.string();
  }
  std::vector<std::string> command = wrapped(launch.wrapper, processes.all(), arguments);
  if (!launch.guard.empty()) command = guarded(launch.guard.string(), std::move(command));
  return {command, environment, log};
}

Command train_command(const std::filesystem::path& program, int ranks, const std::filesystem::path& spec,
                      const std::filesystem::path& out, const std::filesystem::path& log) {
  return {{program.string(), "train", spec.string(), "-o", out.string()}, launcher_environment(ranks), log};
}

Command describe_command(const std::filesystem::path& program, const record::Parallel& parallel,
                         const std::filesystem::path& spec, const std::filesystem::path& log) {
  std::vector<std::string> arguments = {program.string(), "describe", spec.string()};
  add_parallel(arguments, parallel);
  return {arguments, {}, log};
}

Command convert_command(const std::filesystem::path& program, const std::filesystem::path& base,
                        const std::string& precision, const std::filesystem::path& out,
                        const std::filesystem::path& log) {
  return {{program.string(), "resume", base.string(), "--precision", precision, "--steps", "0", "--parallel",
           "serial", "-o", out.string()},
          launcher_environment(1),
          log};
}

namespace {

Command exec_command(const Launch& launch, const design::Arm& arm, const std::string& socket_name,
                     const std::filesystem::path& log, const std::filesystem::path& scratch) {
  std::vector<std::string> words = launch.runner.command;
  words.insert(words.end(), arm.words.begin(), arm.words.end());
  const record::Json runner = {{"command", words},
                               {"arm", arm.name},
                               {"ranks", arm.parallel.ranks},
                               {"ignore_file", launch.ignore_file}};
  auto environment = launcher_environment(arm.parallel.ranks);
  if (!scratch.empty()) environment["TMPDIR"] = scratch.string();
  return {
      {own_program, "exec-worker", launch.base.string(), "--connect", socket_name, "--runner", runner.dump()},
      environment,
      log};
}

// A program of the package on the script of an arm. program: its words; options: before the script's own
// words.
Command package_command(const Launch& launch, const design::Arm& arm, const std::vector<std::string>& program,
                        const std::vector<std::string>& options, const std::filesystem::path& log) {
  const record::RunnerSpec& runner = launch.runner;
  std::vector<std::string> words = launch.python.arguments;
  words.insert(words.end(), program.begin(), program.end());
  words.push_back(runner.script.string() + (runner.function.empty() ? "" : ":" + runner.function));
  words.insert(words.end(), {"--ranks", std::to_string(arm.parallel.ranks)});
  words.insert(words.end(), options.begin(), options.end());
  if (!arm.words.empty()) words.emplace_back("--");
  words.insert(words.end(), arm.words.begin(), arm.words.end());
  auto environment = launch.python.environment;
  environment["BITRIFT_ARM"] = arm.name;
  return {guarded(own_program, words), environment, log};
}

Command runner_command(const Launch& launch, const design::Arm& arm, std::vector<std::string> options,
                       const std::filesystem::path& log) {
  options.insert(options.begin(), {"--base", launch.base.string()});
  return package_command(launch, arm, {"-m", "bitrift.runner"}, options, log);
}

Command script_command(const Launch& launch, const design::Arm& arm, const std::string& socket_name,
                       const std::filesystem::path& log, const std::filesystem::path& scratch) {
  std::vector<std::string> options = {"--connect", socket_name};
  if (launch.ignore_file) options.insert(options.end(), {"--drill", "ignore-file"});
  Command command = runner_command(launch, arm, options, log);
  if (!scratch.empty()) command.environment["TMPDIR"] = scratch.string();
  return command;
}

}  // namespace

Command audit_command(const Launch& launch, const design::Arm& arm, const std::filesystem::path& out,
                      const std::filesystem::path& log) {
  return package_command(launch, arm, {"-m", "bitrift", "audit", "resume"},
                         {"--seed-epochs", "--json", out.string()}, log);
}

Command unread_command(const Launch& launch, const design::Arm& arm, const std::filesystem::path& copy,
                       const std::filesystem::path& weights, const std::filesystem::path& out,
                       const std::filesystem::path& log) {
  return runner_command(
      launch, arm, {"--checkpoint", copy.string(), "--unread", out.string(), "--weights", weights.string()},
      log);
}

Command fact_command(const Launch& launch, const design::Arm& arm, const std::string& key,
                     const std::filesystem::path& out, const std::filesystem::path& log) {
  return runner_command(launch, arm, {"--checkpoint", launch.base.string(), "--" + key, out.string()}, log);
}

Command worker_command(const Launch& launch, const design::Arm& arm, const std::string& socket_name,
                       const std::filesystem::path& log, const std::filesystem::path& scratch) {
  switch (launch.runner.kind) {
    case record::RunnerKind::exec:
      return exec_command(launch, arm, socket_name, log, scratch);
    case record::RunnerKind::python:
      return script_command(launch, arm, socket_name, log, scratch);
    case record::RunnerKind::train:
      break;
  }
  return serve_command(launch, arm, socket_name, log, scratch);
}

Launch launch_of(const design::CampaignSpec& spec, bool trains, bool ignore_file) {
  Launch launch;
  launch.wrapper = spec.launch;
  launch.ignore_file = ignore_file;
  launch.runner = spec.runner;
  if (const auto* const ranks = spec.strata.as<design::ProcessStrata>()) {
    launch.failing = ranks->failing();
    // The failure detector of Open MPI 5.0.11 does not watch processes that joined the job.
    const bool stops = ranks->has(record::FailureMode::stop);
    launch.detector = stops && !ranks->storms();
    launch.ends_stopped = stops && ranks->storms();
    launch.guard = own_program;
  }
  if (trains || spec.runner.kind == record::RunnerKind::train) launch.program = find_trainer();
  if (spec.runner.kind == record::RunnerKind::python) launch.python = script_python(spec.runner);
  return launch;
}

Command resume_command(const Launch& launch, const design::Arm& arm, const std::filesystem::path& copy,
                       const std::vector<int>& replicas, std::int64_t epochs,
                       const std::filesystem::path& trace, const std::filesystem::path& log) {
  std::vector<std::string> arguments = {launch.program.string(), "resume"};
  arguments.push_back(replicas.empty() ? copy.string() : launch.base.string());
  for (const int replica : replicas) {
    arguments.insert(arguments.end(), {"--replica-file", fmt::format("{}={}", replica, copy.string())});
  }
  arguments.insert(arguments.end(), {"--epochs", std::to_string(epochs), "--trace", trace.string()});
  add_parallel(arguments, arm.parallel);
  if (arm.guards) add_guards(arguments, *arm.guards);
  const int ranks = arm.parallel.ranks;
  return {wrapped(launch.wrapper, ranks, arguments), launcher_environment(ranks), log};
}

std::string log_tail(const std::filesystem::path& log) {
  constexpr std::size_t most_lines = 5;
  constexpr std::size_t most_characters = 600;
  std::string text;
  try {
    text = read_text(log);
  } catch (const Error&) {
    return "";
  }
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.size() > most_lines) {
    // Launchers print much when a rank ends; the output of our own program matters more than the end of that.
    const auto own = std::find_if(lines.rbegin(), lines.rend(),
                                  [](const std::string& line) { return line.starts_with("bitrift-"); });
    const auto first = lines.end() - most_lines;
    if (own != lines.rend() && own.base() - 1 < first) {
      lines = {*own};
    } else {
      lines.erase(lines.begin(), first);
    }
  }
  std::string tail = fmt::format("{}", fmt::join(lines, " | "));
  if (tail.size() > most_characters) tail = "..." + tail.substr(tail.size() - most_characters);
  return tail;
}

}  // namespace bitrift::campaign
