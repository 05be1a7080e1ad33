// The note that a rank leaves before it fails on purpose.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "record/fault/process_fault.h"

namespace bitrift::record {

/// One line of a file that the ranks of a machine share.
struct DeathNote {
  double time = 0;  ///< seconds, see monotonic_seconds()
  int rank = 0;     ///< see ProcessFault
  std::int64_t step = 0;
  TrainingPhase phase = TrainingPhase::forward;
};

/// Adds a line. Errors are ignored: the rank is about to fail.
void leave_death_note(const std::filesystem::path& file, const DeathNote& note) noexcept;
/// The notes in the order in which they were left; empty if there is no such file. Incomplete lines are
/// ignored.
[[nodiscard]] std::vector<DeathNote> death_notes(const std::filesystem::path& file);
/// The latest note up to `until`; nullopt if there is none.
[[nodiscard]] std::optional<DeathNote> last_death_note(const std::filesystem::path& file, double until);

/// Seconds of the machine's monotonic clock, which all processes of a machine share.
[[nodiscard]] double monotonic_seconds() noexcept;

}  // namespace bitrift::record
