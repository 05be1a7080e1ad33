// A child process group that never outlives its parent.
#pragma once

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace bitrift {

/// How a child ended: its exit code, or the signal that ended it.
struct ExitStatus {
  int code = 0;    ///< valid when signal == 0
  int signal = 0;  ///< 0 = it exited
  /// Made from the status of waitpid(2) for a process that has ended.
  [[nodiscard]] static ExitStatus of(int status) noexcept;
  [[nodiscard]] bool ok() const noexcept { return code == 0 && signal == 0; }
  /// "exit code 3" or "signal 11 (Segmentation fault)".
  [[nodiscard]] std::string text() const;
};

/// What to start.
struct Command {
  std::vector<std::string> arguments;              ///< arguments[0] is looked up on PATH
  std::map<std::string, std::string> environment;  ///< added to (or replacing) the parent's
  std::filesystem::path output;                    ///< stdout and stderr are appended here; empty: inherited
  std::filesystem::path errors = {};  ///< stderr is appended here instead; empty: it goes with stdout
};

/// The state of a process, the letter after its name in proc(5), stat: 'T' if a signal has stopped it, 't' if
/// a debugger has. 0 if there is no such process.
[[nodiscard]] char process_state(pid_t process);

/// A child in its own process group. The kernel sends it SIGKILL when the thread that started it ends
/// (prctl(2), PR_SET_PDEATHSIG), so start children from a thread that lives as long as the program.
class Subprocess {
 public:
  /// Starts the command; stdin is /dev/null. Throws Error(not_found | io) when it cannot be started.
  explicit Subprocess(const Command& command);
  ~Subprocess();  ///< kills the group if it still runs
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// The status if the child has ended, without waiting.
  std::optional<ExitStatus> poll();
  /// Waits at most `seconds` (negative: for ever); nullopt when the time ran out.
  std::optional<ExitStatus> wait(double seconds = -1);
  /// Sends a signal to the whole group; no error when it is gone.
  void signal_group(int signal) noexcept;
  /// The first signal, `grace` seconds later SIGKILL to the group; returns once the child is reaped.
  ExitStatus terminate(double grace_seconds, int first = SIGTERM);

 private:
  pid_t pid_ = -1;
  std::optional<ExitStatus> status_;
};

}  // namespace bitrift
