// Ends of a campaign that are neither a usage error nor an internal error in bitrift.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bitrift::campaign {

/// The harness cannot be trusted: controls differ, a fault did not land, a canary misbehaves. Exit code 1.
class Misbehaviour : public std::runtime_error {
 public:
  explicit Misbehaviour(const std::string& problem) : Misbehaviour(std::vector{problem}) {}
  /// problems: at least one; what() is the first.
  explicit Misbehaviour(std::vector<std::string> problems)
      : std::runtime_error(problems.front()), problems_(std::move(problems)) {}
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// A signal arrived; the same command resumes. Exit code 2 after SIGINT and SIGHUP. After SIGTERM and
/// SIGUSR1, by which a machine is taken away, EX_TEMPFAIL, for job scripts.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal);
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// The hours of --max-hours are over; the same command resumes. Exit code 0.
class OutOfTime : public std::runtime_error {
 public:
  OutOfTime() : std::runtime_error("the hours of --max-hours are over; run the same command to resume") {}
};

/// While one exists, these signals only set a flag.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(InterruptGuard&&) = delete;
  InterruptGuard& operator=(InterruptGuard&&) = delete;
  /// Whether a signal has come.
  [[nodiscard]] static bool raised() noexcept;
  /// Throws Interrupted then.
  static void check();
};

}  // namespace bitrift::campaign
