// Shared memory in which a rank shows a watching program when it last made progress, how far it is, and
// whether it waits for others.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>

namespace bitrift::mpi {

/// Where a rank is when it makes progress.
enum class Place : std::int32_t {
  elsewhere,  ///< in a save, a recovery, ...
  step,       ///< in a step or an evaluation, whose beats are regular
  idle,       ///< it has no work, and looks from time to time whether it is needed
};

/// How far a rank is in its run.
struct Steps {
  std::int64_t done = 0;
  bool in_next = false;  ///< whether it has begun the step after these
  auto operator<=>(const Steps&) const = default;
};

/// Lives in memory shared with the watcher. A rank that waits for others makes no progress, but is not stuck.
struct Pulse {
  std::atomic<std::int32_t> process;  ///< 0: nobody's
  std::atomic<std::int32_t> waits;    ///< calls of MPI that the rank is in; more than 0: it waits for others
  std::atomic<Place> place;           ///< of the last beat
  std::atomic<std::int32_t> spans;    ///< times between two beats of which the first was in a step
  std::atomic<std::int64_t> beat;     ///< nanoseconds of the monotonic clock; 0: the training has not begun
  std::atomic<std::int64_t> longest;  ///< nanoseconds of the longest of the spans, without waiting
  std::atomic<std::int64_t> steps;    ///< 2 x Steps::done, and 1 more in the step after these
};
static_assert(std::atomic<std::int32_t>::is_always_lock_free && std::atomic<Place>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

/// Begins to show this rank's pulse there, for as long as the process lives.
void show_pulse(Pulse& place) noexcept;
/// This rank has made progress. Does nothing if the pulse is not shown.
void beat(Place place) noexcept;
/// Shows how far this rank is. Does nothing if the pulse is not shown.
void show_steps(Steps steps) noexcept;
/// How far the rank of this pulse is, as it last showed.
[[nodiscard]] Steps shown_steps(const Pulse& pulse) noexcept;

/// The time in which this rank has waited for others until now.
[[nodiscard]] double seconds_waited() noexcept;

/// Within this scope, the rank waits for others.
class Waiting {
 public:
  Waiting() noexcept;
  ~Waiting();
  Waiting(Waiting&&) = delete;
  Waiting& operator=(Waiting&&) = delete;
};

}  // namespace bitrift::mpi
