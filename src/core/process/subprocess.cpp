#include "core/process/subprocess.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"

extern char**
    environ;  // NOLINT(readability-redundant-declaration): POSIX leaves the declaration to the program

namespace bitrift {
namespace {

// Everything the child needs is prepared before fork: between fork and exec only async-signal-safe calls are
// allowed.
struct Prepared {
  std::vector<std::string> environment;
  std::vector<char*> arguments, variables;
};

Prepared prepare(const Command& command) {
  Prepared prepared;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!command.environment.contains(text.substr(0, text.find('=')))) prepared.environment.push_back(text);
  }
  for (const auto& [name, value] : command.environment) {
    prepared.environment.push_back(fmt::format("{}={}", name, value));
  }
  for (const auto& argument : command.arguments)
    prepared.arguments.push_back(const_cast<char*>(argument.c_str()));
  for (auto& entry : prepared.environment) prepared.variables.push_back(entry.data());
  prepared.arguments.push_back(nullptr);
  prepared.variables.push_back(nullptr);
  return prepared;
}

[[noreturn]] void run_child(const Prepared& prepared, int null_input, int output, int errors, int report,
                            pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl took effect
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  const auto redirects = [](int from, int to) { return from < 0 || ::dup2(from, to) >= 0; };
  if (redirects(null_input, 0) && redirects(output, 1) && redirects(errors < 0 ? output : errors, 2)) {
    ::execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.variables.data());
  }
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

char process_state(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t at = text.rfind(')');
  return at != std::string::npos && at + 2 < text.size() ? text[at + 2] : '\0';
}

ExitStatus ExitStatus::of(int status) noexcept {
  return WIFSIGNALED(status) ? ExitStatus{0, WTERMSIG(status)} : ExitStatus{WEXITSTATUS(status), 0};
}

std::string ExitStatus::text() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", code);
}

Subprocess::Subprocess(const Command& command) {
  if (command.arguments.empty()) fail(ErrorCode::internal, "a command without a program");
  const Prepared prepared = prepare(command);
  const FileDescriptor null_input = open_file("/dev/null", O_RDONLY);
  FileDescriptor output, errors;
  if (!command.output.empty()) output = open_file(command.output, O_WRONLY | O_CREAT | O_APPEND);
  if (!command.errors.empty()) errors = open_file(command.errors, O_WRONLY | O_CREAT | O_APPEND);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::io, "cannot make a pipe: {}", errno_text(errno));
  const FileDescriptor report_in(ends[0]);
  FileDescriptor report_out(ends[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail(ErrorCode::io, "cannot start {}: {}", command.arguments[0], errno_text(errno));
  if (pid_ == 0) run_child(prepared, null_input.get(), output.get(), errors.get(), report_out.get(), parent);
  ::setpgid(pid_, pid_);  // parent and child both do it: either may be first
  report_out.close();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report_in.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof error)) {
    wait();
    fail(error == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot start {}: {}", command.arguments[0],
         errno_text(error));
  }
}

Subprocess::~Subprocess() {
  if (pid_ > 0 && !status_) {
    signal_group(SIGKILL);
    int raw = 0;
    while (::waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
    }
  }
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(std::exchange(other.status_, std::nullopt)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

std::optional<ExitStatus> Subprocess::poll() {
  if (pid_ <= 0 || status_) return status_;
  int raw = 0;
  const pid_t got = ::waitpid(pid_, &raw, WNOHANG);
  if (got == pid_) status_ = ExitStatus::of(raw);
  return status_;
}

std::optional<ExitStatus> Subprocess::wait(double seconds) {
  if (poll() || pid_ <= 0) return status_;
  // A pidfd becomes readable when the process ends: waiting without polling and without a SIGCHLD handler.
  const FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  const auto start = std::chrono::steady_clock::now();
  while (!poll()) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const double left = seconds < 0 ? 1.0 : seconds - spent.count();
    if (left <= 0) return std::nullopt;
    pollfd waiting{pidfd.get(), POLLIN, 0};
    // Without pidfd (kernels before 5.3) poll in steps of 10 ms.
    const double step = pidfd ? std::min(left, 1.0) : 0.01;
    ::poll(&waiting, pidfd ? 1 : 0, static_cast<int>(step * 1000) + 1);
  }
  return status_;
}

void Subprocess::signal_group(int signal) noexcept {
  if (pid_ > 0) ::kill(-pid_, signal);
}

ExitStatus Subprocess::terminate(double grace_seconds, int first) {
  if (!poll()) signal_group(first);
  if (!wait(grace_seconds)) signal_group(SIGKILL);
  const auto status = wait();
  signal_group(SIGKILL);  // processes that the leader left in its group
  return status.value_or(ExitStatus{});
}

}  // namespace bitrift
