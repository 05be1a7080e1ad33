// What workers may take: processors, memory while they live, and disk by their logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "record/trial.h"

namespace bitrift::campaign {

/// Above this a log loses its older part.
constexpr std::uint64_t most_log_bytes = std::uint64_t{16} << 20U;

/// Bytes that these processes and all their descendants hold and that only their end gives back: anonymous
/// and shared memory (RssAnon + RssShmem of /proc/PID/status). What is mapped from files, such as libraries,
/// is not counted, and the address space says nothing: LibTorch and MPI reserve far more than they use. A
/// segment that several processes share counts once for each.
[[nodiscard]] std::uint64_t resident_memory(const std::vector<pid_t>& roots);

/// How a run ends whose worker held more than CampaignSpec::memory. The text is the same each time: rows of
/// equal runs are equal.
[[nodiscard]] record::Failure memory_failure(std::uint64_t limit);

/// When the file holds more than `most` bytes: cuts it down to a line that says so and its last
/// most / 16 bytes. Writers must append (O_APPEND); what they write in the same moment may be lost. A file
/// that is not there is left alone; errors are too, since a log is no result.
void cut_log(const std::filesystem::path& log, std::uint64_t most = most_log_bytes) noexcept;

/// Processors that this process may use.
[[nodiscard]] int usable_cores();

}  // namespace bitrift::campaign
