// Ends ranks that hang.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include <sys/types.h>

#include "core/file.h"
#include "mpi/pulse.h"

namespace bitrift::cli {

/// Watches the ranks of a job on this machine, without a thread or a message in them: each shows its pulse in
/// memory shared with this process. A rank gets SIGKILL if, for longer than the limit, it has neither made
/// progress nor waited for others, or if a signal has stopped it. The others notice that as any other death.
class HangWatch {
 public:
  /// seconds: the limit; 0: nothing is watched. Throws Error(io).
  explicit HangWatch(double seconds);
  ~HangWatch();
  HangWatch(HangWatch&&) = delete;
  HangWatch& operator=(HangWatch&&) = delete;

  /// How ranks find the memory, for their environment; "": they need not.
  [[nodiscard]] std::string place() const;
  /// ranks: processes that may not show a pulse yet.
  void look(const std::set<pid_t>& ranks);

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool stopped_for_long(pid_t process);
  [[nodiscard]] bool silent_for_long(const mpi::Pulse& pulse) const;
  void end(pid_t process, const char* why);

  std::chrono::duration<double> limit_;
  FileDescriptor file_;
  mpi::Pulse* board_ = nullptr;
  std::map<pid_t, Clock::time_point> stopped_;  // since when
  std::set<pid_t> over_;                        // ended, or made to end
};

/// The rank's side: begins to show its pulse where place() says. Does nothing on another machine.
void show_pulse_at(const char* place) noexcept;

}  // namespace bitrift::cli
