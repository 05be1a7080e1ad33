#include "mpi/pulse.h"

#include <chrono>

#include <unistd.h>

namespace bitrift::mpi {
namespace {

Pulse* shown = nullptr;
int waits = 0;
std::int64_t wait_began = 0, waited = 0;  // nanoseconds

std::int64_t now() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void show_pulse(Pulse& place) noexcept {
  place.process = ::getpid();
  shown = &place;
}

// Only this thread writes, so each value is read and written without further ado.
void beat(Place place) noexcept {
  if (shown == nullptr) return;
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::int64_t time = now();
  if (shown->place.load(relaxed) == Place::step) {
    const std::int64_t span = time - shown->beat.load(relaxed);
    if (span > shown->longest.load(relaxed)) shown->longest.store(span, relaxed);
    shown->spans.store(shown->spans.load(relaxed) + 1, relaxed);
  }
  shown->place.store(place, relaxed);
  shown->beat.store(time, relaxed);
}

void show_steps(Steps steps) noexcept {
  if (shown != nullptr)
    shown->steps.store(2 * steps.done + (steps.in_next ? 1 : 0), std::memory_order_relaxed);
}

Steps shown_steps(const Pulse& pulse) noexcept {
  const std::int64_t steps = pulse.steps.load(std::memory_order_relaxed);
  return {steps / 2, steps % 2 != 0};
}

double seconds_waited() noexcept { return static_cast<double>(waited) * 1e-9; }

Waiting::Waiting() noexcept {
  if (waits++ == 0) wait_began = now();
  if (shown != nullptr) shown->waits.fetch_add(1, std::memory_order_relaxed);
}

Waiting::~Waiting() {
  if (--waits == 0) waited += now() - wait_began;
  if (shown == nullptr) return;
  // A watcher that sees the end of the wait must not see the old beat.
  if (shown->beat.load(std::memory_order_relaxed) != 0) shown->beat.store(now(), std::memory_order_relaxed);
  shown->waits.fetch_sub(1, std::memory_order_release);
}

}  // namespace bitrift::mpi
