// Ends ranks that hang, and knows how far the ranks have come.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <sys/types.h>

#include "core/file.h"
#include "mpi/pulse.h"

namespace bitrift::cli {

/// How long a rank may make no progress without waiting for others.
struct HangLimit {
  bool watches = false;
  /// Absent: it follows from what the ranks show. In a step or an evaluation, 30 times the longest time that
  /// any rank has taken from one beat to the next, but at least 60 s; elsewhere, or before 100 such times are
  /// known, 600 s.
  std::optional<double> seconds = {};
};

/// Watches the ranks of a job on this machine, without a thread or a message in them: each shows its pulse in
/// memory shared with this process. A rank gets SIGKILL if, for longer than the limit, it has neither made
/// progress nor waited for others, or if a signal has stopped it. If all have waited for each other for so
/// long, and none is on another machine, the one that made progress least recently gets it. The others notice
/// that as any other death. Time in which this process is stopped itself does not count, because the ranks
/// may have been stopped with it. A rank that a debugger has stopped is left alone.
class HangWatch {
 public:
  /// ranks: of the job. tells_steps: whether furthest() is wanted. Throws Error(io).
  HangWatch(const HangLimit& limit, int ranks, bool tells_steps);
  ~HangWatch();
  HangWatch(HangWatch&&) = delete;
  HangWatch& operator=(HangWatch&&) = delete;

  /// How ranks find the memory, for their environment; "": they need not.
  [[nodiscard]] std::string place() const;
  /// ranks: processes that may not show a pulse yet.
  void look(const std::set<pid_t>& ranks);
  /// How far the ranks on this machine have come; nullopt: none has begun its training, or shows it.
  [[nodiscard]] std::optional<mpi::Steps> furthest() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    std::int64_t beat = 0;                     // the last that was seen
    double since = 0;                          // when it was seen first, in watched_ seconds
    std::optional<double> stopped_since = {};  // the same
  };

  void look_at(pid_t process, const mpi::Pulse* pulse);
  void look_at_all(const std::map<pid_t, const mpi::Pulse*>& living);
  [[nodiscard]] double limit(const mpi::Pulse* pulse) const;
  void end(pid_t process, const char* why, double limit);

  HangLimit limit_;
  std::size_t job_ranks_;
  FileDescriptor file_;
  mpi::Pulse* board_ = nullptr;
  double watched_ = 0;  // seconds in which this process ran
  Clock::time_point looked_ = Clock::now();
  std::int64_t longest_ = 0;  // of the ranks' spans, in nanoseconds
  std::int64_t spans_ = 0;
  std::map<pid_t, Rank> ranks_;
  std::set<pid_t> over_;  // ended, or made to end
  double last_end_ = 0;   // of one of them, in watched_ seconds: the others have yet to notice
};

/// The rank's side: begins to show its pulse where place() says. Does nothing on another machine.
void show_pulse_at(const char* place) noexcept;

}  // namespace bitrift::cli
