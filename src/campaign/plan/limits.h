// Limits of workers: processors, memory while they live, and disk for their logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "record/trial.h"

namespace bitrift::campaign {

/// A log above this size loses its older part.
constexpr std::uint64_t most_log_bytes = std::uint64_t{16} << 20U;

/// Bytes that these processes and all their descendants hold and that only their end gives back: anonymous
/// and shared memory (RssAnon + RssShmem of /proc/PID/status). Memory that is mapped from files, such as
/// libraries, is not counted, and the address space says nothing: LibTorch and MPI reserve far more than they
/// use. A segment that several processes share counts once for each.
[[nodiscard]] std::uint64_t resident_memory(const std::vector<pid_t>& roots);

/// The end of a run whose worker held more than CampaignSpec::memory. The text is always the same, so that
/// rows of equal runs are equal.
[[nodiscard]] record::Failure memory_failure(std::uint64_t limit);

/// If the file holds more than `most` bytes, cuts it down to a line that says so and its last most / 16
/// bytes. Writers must append (O_APPEND); data written at the same moment may be lost. A missing file is
/// ignored; so are errors, since a log is not a result.
void cut_log(const std::filesystem::path& log, std::uint64_t most = most_log_bytes) noexcept;

/// Processors that this process may use.
[[nodiscard]] int usable_cores();

}  // namespace bitrift::campaign
