// The disk space of a campaign, known before its first trial.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/plan/plan.h"

namespace bitrift::campaign {

/// The largest number of workers that a driver of this campaign has at any time: those that work, and idle
/// ones that are kept for a later stage.
[[nodiscard]] std::size_t most_workers(const design::CampaignSpec& spec, std::size_t side_by_side);

/// Bytes. Files that exist already are not counted.
struct DiskUse {
  std::uint64_t bases = 0;        ///< of all bases, which must exist when this is asked
  std::uint64_t copy = 0;         ///< of one private copy: the largest base
  std::size_t copies = 0;         ///< how many
  std::uint64_t rows = 0;         ///< rows still to be written, as far as they are planned
  std::uint64_t row_bytes = 0;    ///< bytes of one row: the mean of the journal, or of a typical row
  std::uint64_t fault_bytes = 0;  ///< additional bytes of jitter runs, which have many faults
  std::uint64_t summary = 0;      ///< bytes of incidents and the plans of rounds
  std::size_t logs = 0;           ///< files, each cut at most_log_bytes
  bool more_rounds = false;       ///< rows of later rounds are not included
  [[nodiscard]] std::uint64_t copy_bytes() const noexcept { return copies * copy; }
  [[nodiscard]] std::uint64_t journal_bytes() const noexcept { return rows * row_bytes + fault_bytes; }
};

/// Measures the journal's rows if there are at least as many as an arm's preparation has; otherwise a typical
/// row with as many replicas, evaluations and digits as the spec will give.
[[nodiscard]] DiskUse disk_use(const Plan& plan, const Layout& layout, const JournalRows& rows,
                               std::size_t workers);

/// One line: "disk: base 121 KiB; journal 1.9 MiB for 1701 rows; ...".
[[nodiscard]] std::string describe(const DiskUse& use, const std::filesystem::path& copies_in,
                                   std::uint64_t free);

/// Throws Error(io) that says what is needed, where, and how much is free, when the campaign does not fit;
/// logs count with their usual size, not with their limit.
void check_space(const DiskUse& use, const std::filesystem::path& root,
                 const std::filesystem::path& copies_in);

}  // namespace bitrift::campaign
