// The ranks of a job, seen from outside.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include <sys/types.h>

namespace bitrift::cli {

/// The ranks that an mpirun has started on this machine: its children that run this program. Open MPI 5.0.11
/// with
/// `--with-ft ulfm` waits for ever for a rank that dies before all have met in MPI_Init; here such a death is
/// seen by the process number.
class LocalRanks {
 public:
  /// notes: a file to write the names of the ranks' shared segments to, for remove_segments() by a later
  /// process.
  LocalRanks(pid_t launcher, std::filesystem::path notes);

  /// Returns whether a rank that an earlier look() saw is gone. Finds the shared segments, too.
  bool look();
  /// Removes the segments that mpirun would have removed. Call it when the job is over.
  void remove_segments() const noexcept;

 private:
  void find_segments(pid_t rank);

  pid_t launcher_;
  std::filesystem::path notes_;
  std::set<pid_t> seen_, mapped_;
  std::set<std::string> segments_;  // names in /dev/shm without the number of the rank
  bool lost_ = false;
};

/// Removes the segments that are noted in this file. Without the file, does nothing.
void remove_noted_segments(const std::filesystem::path& notes) noexcept;

}  // namespace bitrift::cli
