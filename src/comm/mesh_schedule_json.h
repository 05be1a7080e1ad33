// A schedule as JSON: a file that people can read, and that no program needs to trust.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// The largest file that is read.
inline constexpr std::uintmax_t most_file_bytes = std::uintmax_t{1} << 30U;

/// {"schema": 1, "scheme", "topology", "chunks", "sends": [[from, to, chunk, "add" | "copy", [after]]]}, one
/// send a line.
[[nodiscard]] std::string schedule_text(const Schedule& schedule);

/// Reads what schedule_text wrote. Throws Error(bad_file), which names `source`, for anything else: unknown,
/// missing or doubled keys, other types, numbers out of range, meshes that are not connected. verify()
/// decides whether the schedule is right.
[[nodiscard]] Schedule schedule_from_text(std::string_view text, const std::string& source);
/// Also throws Error(not_found | io), and bad_file beyond most_file_bytes.
[[nodiscard]] Schedule read_schedule(const std::filesystem::path& path);

}  // namespace bitrift::comm
