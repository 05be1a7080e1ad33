#include "campaign/plan/ends.h"

#include <array>
#include <cstddef>

#include <signal.h>
#include <sysexits.h>

namespace bitrift::campaign {
namespace {

constexpr std::array<int, 4> caught = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
volatile sig_atomic_t flag = 0;  // the last signal
std::array<struct sigaction, caught.size()> previous;

void raise_flag(int signal) { flag = signal; }

}  // namespace

Interrupted::Interrupted(int signal)
    : std::runtime_error("interrupted; run the same command to resume"),
      exit_code_(signal == SIGTERM || signal == SIGUSR1 ? EX_TEMPFAIL : 2) {}

InterruptGuard::InterruptGuard() {
  flag = 0;
  for (std::size_t i = 0; i < caught.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = raise_flag;  // no SA_RESTART: poll(2) returns at once
    sigaction(caught[i], &action, &previous[i]);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < caught.size(); ++i) sigaction(caught[i], &previous[i], nullptr);
}

bool InterruptGuard::raised() noexcept { return flag != 0; }

void InterruptGuard::check() {
  if (raised()) throw Interrupted(flag);
}

}  // namespace bitrift::campaign
