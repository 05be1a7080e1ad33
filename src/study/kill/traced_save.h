// A process whose file-altering calls are seen before they are made, and that is killed at one of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "core/process/subprocess.h"
#include "study/kill/altering_call.h"

namespace bitrift::study {

/// The point at which SIGKILL ends a process: before a call is made, or when half of its bytes are written.
struct KillPoint {
  std::size_t call = 0;  ///< the first is 0
  bool half = false;     ///< for calls with at least 2 bytes
  bool operator==(const KillPoint&) const = default;
};

struct TracedSave {
  std::vector<AlteringCall> calls;  ///< all calls that were begun, including that of the kill
  ExitStatus status = {};           ///< of the process
  bool waited = false;              ///< trace_race(): held threads were released because of `most`
};

/// Lets a process run to its end, with all threads and processes that it starts, or kills them all at
/// `point`. pid: a descendant of this process that no thread waits for, and that stops itself by SIGSTOP.
/// folder: absolute and without links. Throws Error(unsupported) where the system does not allow ptrace(2),
/// Error(io), and campaign::Interrupted, after which the process has ended.
[[nodiscard]] TracedSave trace_save(pid_t pid, const std::filesystem::path& folder,
                                    std::optional<KillPoint> point);

/// Lets a process run to its end, but holds its other threads, and the processes that it starts, at the calls
/// from number `call` on (the first is 0), until its first thread gets SIGUSR2, which it never sees. So what
/// the first thread does until then comes before these calls. They are released after `most`, too: the first
/// thread may wait for them. Everything else as for trace_save().
[[nodiscard]] TracedSave trace_race(pid_t pid, const std::filesystem::path& folder, std::size_t call,
                                    std::chrono::milliseconds most);

/// The number of bytes of a call that are written before its process is killed half-way: whole blocks for
/// large calls, so that O_DIRECT allows it.
[[nodiscard]] std::uint64_t half_of(std::uint64_t bytes) noexcept;

}  // namespace bitrift::study
