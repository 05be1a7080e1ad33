#include "launch/preemption.h"

#include <atomic>
#include <csignal>
#include <string_view>

#include <sysexits.h>
#include <unistd.h>

namespace bitrift::cli {
namespace {

std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// Of all functions, only those that may be called in a signal handler.
void end_at_once(int /*signal*/) {
  constexpr std::string_view line =
      "bitrift-train: ended by SIGUSR1 before there was anything to save; start it again\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(EX_TEMPFAIL);
}

void ask_to_leave(int /*signal*/) { asked = true; }

}  // namespace

void handle_unless_ignored(int signal, void (*handler)(int)) noexcept {
  if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

void end_when_preempted() noexcept { handle_unless_ignored(SIGUSR1, end_at_once); }

void leave_when_preempted(bool alone) noexcept {
  handle_unless_ignored(SIGUSR1, ask_to_leave);
  if (alone) handle_unless_ignored(SIGTERM, ask_to_leave);
}

bool preempted() noexcept { return asked; }

}  // namespace bitrift::cli
