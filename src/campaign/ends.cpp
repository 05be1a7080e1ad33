#include "campaign/ends.h"

#include <array>
#include <cstddef>

#include <signal.h>

namespace bitrift::campaign {
namespace {

constexpr std::array<int, 3> caught = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t raised = 0;
std::array<struct sigaction, caught.size()> previous;

void raise_flag(int /*signal*/) { raised = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  raised = 0;
  for (std::size_t i = 0; i < caught.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = raise_flag;  // no SA_RESTART: poll(2) returns at once
    sigaction(caught[i], &action, &previous[i]);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < caught.size(); ++i) sigaction(caught[i], &previous[i], nullptr);
}

void InterruptGuard::check() {
  if (raised != 0) throw Interrupted();
}

}  // namespace bitrift::campaign
