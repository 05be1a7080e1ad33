#include "campaign/launch/exec_worker.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "campaign/launch/launch.h"
#include "ckpt/compare.h"
#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/process/subprocess.h"
#include "record/worker_message.h"
#include "spec/exec_runner.h"
#include "wire/line_channel.h"
#include "wire/meeting_point.h"

namespace bitrift::campaign {
namespace {

using record::Drill;
using record::FailureReason;

constexpr int hung_up = 3;
constexpr int command_failed = 2;  // the user's own program decides, as for any worker

// The text in the worker's log, which is this process' standard output.
std::uint64_t log_size() {
  struct stat state {};
  return ::fstat(STDOUT_FILENO, &state) == 0 && S_ISREG(state.st_mode)
             ? static_cast<std::uint64_t>(state.st_size)
             : 0;
}

// The last line that was printed since then; "" when there is none. Only one line, because rows of repeated
// runs are compared, and the lines above an exception's own line often name processes and times.
std::string last_line_since(std::uint64_t start) {
  constexpr std::uint64_t most = 600;
  const std::uint64_t size = log_size();
  if (size <= start) return "";
  try {
    const std::filesystem::path log = "/proc/self/fd/1";
    std::string text(std::min(size - start, most), '\0');
    read_at(open_file(log, O_RDONLY), text.data(), text.size(), size - text.size(), log);
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    return text.substr(text.rfind('\n') + 1);
  } catch (const Error&) {
    return "";
  }
}

record::Failure failure_of(const ExitStatus& status, const std::string& last_line) {
  // Shells and launchers pass a signal on as 128 + n.
  const int signal = status.signal != 0                        ? status.signal
                     : status.code > 128 && status.code <= 192 ? status.code - 128
                                                               : 0;
  if (signal != 0) return {FailureReason::signal, ::strsignal(signal), signal};
  return {FailureReason::exception, status.text() + (last_line.empty() ? "" : ": " + last_line), 0};
}

// What a drill does in place of the command's first step.
void drill(std::optional<Drill> kind) {
  if (kind == Drill::abort) std::abort();
  if (kind == Drill::segfault) ::raise(SIGSEGV);
  while (kind == Drill::hang) ::pause();
}

class ExecWorker {
 public:
  explicit ExecWorker(const ExecWorkerOptions& options)
      : options_(options), driver_(connect_to_driver(options.connect), "the driver") {}

  int run() {
    driver_.send(record::to_line(record::Hello{0, 1, ::getpid()}));
    const record::Json environment = {{"runner", "exec"}, {"command", options_.command}};
    driver_.send(record::to_line(record::Ready{ckpt::digest_of(options_.base), environment}));
    while (true) {
      const std::optional<std::string> line = driver_.wait_for_line();
      if (!line) return hung_up;
      const auto request = record::run_request_from_line(*line);
      if (!request) return 0;
      const int code = answer(*request);
      if (code != 0) return code;
    }
  }

 private:
  // 0, or the exit code with which the worker ends.
  int answer(const record::RunRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    drill(request.drill);
    if (request.drill == Drill::raise)
      return broke({FailureReason::exception, "drill: raise", 0}, request, command_failed);
    const std::filesystem::path file =
        options_.ignore_file ? options_.base : std::filesystem::path(request.checkpoint);
    const std::filesystem::path result_file =
        std::filesystem::path(request.checkpoint).parent_path() / "result.json";
    std::error_code ignored;
    std::filesystem::remove(result_file, ignored);
    const std::vector<std::string> changed = changed_in_file(options_.base, file);
    const std::uint64_t log_start = log_size();
    Subprocess guard(guarded(request, file, result_file));
    while (!guard.wait(0.05)) {
      driver_.receive();
      if (driver_.open()) continue;
      guard.terminate(2);
      return hung_up;
    }
    const ExitStatus status = guard.poll().value_or(ExitStatus{});
    if (!status.ok()) {
      const record::Failure failure = failure_of(status, last_line_since(log_start));
      return broke(failure, request, failure.signal != 0 ? 128 + failure.signal : command_failed);
    }
    if (!std::filesystem::exists(result_file)) {
      return broke({FailureReason::exception, "exit code 0, but no result file was written", 0}, request,
                   command_failed);
    }
    if (request.drill == Drill::leak) leaked_ = true;
    record::RunResult result;
    try {
      result = record::read_exec_result(result_file);
    } catch (const Error& error) {
      return broke({FailureReason::exception, error.what(), 0}, request, command_failed);
    }
    result.id = request.id;
    result.changed_tensors = changed;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    driver_.send(record::to_line(record::Finished{result}));
    return 0;
  }

  [[nodiscard]] Command guarded(const record::RunRequest& request, const std::filesystem::path& file,
                                const std::filesystem::path& result_file) const {
    const std::string seed = leaked_ ? "0" : request.order_seed ? std::to_string(*request.order_seed) : "";
    const std::map<std::string, std::string> values = {
        {"checkpoint", file.string()}, {"result", result_file.string()},
        {"arm", options_.arm},         {"epochs", std::to_string(request.epochs)},
        {"order_seed", seed},          {"ranks", std::to_string(options_.ranks)}};
    Command command;
    for (const auto& [name, value] : values) {
      std::string variable = "BITRIFT_" + name;
      for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      command.environment[variable] = value;
    }
    const record::Json words = record::expand_exec_words(options_.command, values);
    command.arguments = {"/proc/self/exe", "exec-guard", record::Json{{"command", words}}.dump()};
    return command;
  }

  // Rows are compared, so the folder of this worker's files must not appear in them.
  int broke(record::Failure failure, const record::RunRequest& request, int code) {
    const std::string place = std::filesystem::path(request.checkpoint).parent_path().string() + "/";
    for (auto at = failure.detail.find(place); at != std::string::npos; at = failure.detail.find(place, at)) {
      failure.detail.erase(at, place.size());
    }
    driver_.send(record::to_line(record::Broken{0, failure}));
    return code;
  }

  const ExecWorkerOptions& options_;
  LineChannel driver_;
  bool leaked_ = false;
};

}  // namespace

ExecWorkerOptions exec_worker_options(const std::filesystem::path& base, const std::string& connect,
                                      const std::string& runner) {
  try {
    const record::Json value = record::Json::parse(runner);
    return {base,
            connect,
            value.at("command").get<std::vector<std::string>>(),
            value.at("arm").get<std::string>(),
            value.at("ranks").get<int>(),
            value.at("ignore_file").get<bool>()};
  } catch (const record::Json::exception& error) {
    fail(ErrorCode::bad_input, "--runner: {}", error.what());
  }
}

int run_exec_worker(const ExecWorkerOptions& options) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  return ExecWorker(options).run();
}

std::vector<std::string> changed_in_file(const std::filesystem::path& base,
                                         const std::filesystem::path& file) {
  std::vector<std::string> changed;
  for (const ckpt::TensorDifference& one : ckpt::compare(base, file)) {
    // An injection cannot alter tensors that cannot be compared (texts of variable length, say).
    if (one.kind != "not_compared" && !one.path.starts_with("checksum/")) changed.push_back(one.path);
  }
  return changed;
}

}  // namespace bitrift::campaign
