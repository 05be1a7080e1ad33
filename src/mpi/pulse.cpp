#include "mpi/pulse.h"

#include <chrono>

#include <unistd.h>

namespace bitrift::mpi {
namespace {

Pulse* shown = nullptr;

}  // namespace

void show_pulse(Pulse& place) noexcept {
  place.process = ::getpid();
  shown = &place;
}

void beat() noexcept {
  if (shown == nullptr) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  shown->beat.store(std::chrono::nanoseconds(now).count(), std::memory_order_relaxed);
}

Waiting::Waiting() noexcept {
  if (shown != nullptr) shown->waits.fetch_add(1, std::memory_order_relaxed);
}

Waiting::~Waiting() {
  if (shown == nullptr) return;
  // A watcher that sees the end of the wait must not see the old beat.
  if (shown->beat.load(std::memory_order_relaxed) != 0) beat();
  shown->waits.fetch_sub(1, std::memory_order_release);
}

}  // namespace bitrift::mpi
