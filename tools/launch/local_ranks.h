// The ranks of a job, seen from outside.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include <sys/types.h>

namespace bitrift::cli {

/// Whether a process runs the same program as this one.
[[nodiscard]] bool runs_this_program(pid_t process);

/// The ranks that an mpirun has started on this machine: its children that run this program. With
/// `--with-ft ulfm`, Open MPI 5.0.11 waits for ever for a rank that dies before all have met in MPI_Init;
/// here such a death is seen by the process number.
class LocalRanks {
 public:
  /// mark: NAME=VALUE in the environment of this job's ranks, and of no other process. notes: a file to write
  /// the names of the ranks' shared segments to, for remove_noted_segments() in a later process.
  LocalRanks(pid_t launcher, std::string mark, std::filesystem::path notes);

  /// Returns whether a rank is gone that an earlier look() saw, or that never appeared although mpirun has
  /// started the others. Finds the shared segments, too.
  bool look();
  /// Those that some look() saw.
  [[nodiscard]] const std::set<pid_t>& seen() const noexcept { return seen_; }
  /// When mpirun is over: ends the ranks that it left behind, and removes the segments that it would have
  /// removed. killed: a signal ended mpirun; ranks that no look() saw may be left, too.
  void clean_up(bool killed) const;

 private:
  using Clock = std::chrono::steady_clock;

  void arrived(pid_t rank);
  void find_segments(pid_t rank);
  [[nodiscard]] bool is_marked(pid_t process) const;

  pid_t launcher_;
  std::string mark_;
  std::filesystem::path notes_;
  std::set<pid_t> seen_, mapped_;
  std::set<std::string> segments_;  // names in /dev/shm without the number of the rank
  std::size_t expected_ = 0;        // on this machine, as mpirun told them; 0: unknown
  Clock::time_point last_arrival_;
  bool lost_ = false;
};

/// Removes the segments that are noted in this file. Without the file, does nothing.
void remove_noted_segments(const std::filesystem::path& notes) noexcept;

}  // namespace bitrift::cli
