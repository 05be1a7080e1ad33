// The journal of a campaign: trials.jsonl (docs/journal.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "campaign/journal/line_file.h"
#include "record/json/json.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// {"crc32c":"%08x","row":<json>}: the CRC-32C covers the exact bytes of <json>.
[[nodiscard]] std::string journal_line(const record::Json& row);
/// The row of a line (without its line end), its CRC checked. Throws Error(bad_file) that begins with
/// `place`.
[[nodiscard]] record::Json row_of_line(std::string_view line, const std::string& place);

/// The content of a journal's line: a row, or the ids of earlier rows that no longer count.
using JournalEntry = std::variant<record::TrialRecord, std::vector<std::string>>;

/// Throws as row_of_line() does, and Error(bad_file) that begins with `place` for a line that is not a row.
[[nodiscard]] JournalEntry entry_of_line(std::string_view line, const std::string& place);

/// The contents of a journal: rows that were not retracted later, each id once, in file order.
class JournalRows {
 public:
  /// Applies the next line.
  void add(JournalEntry entry);

  [[nodiscard]] std::vector<record::TrialRecord> effective() const&;
  /// The same, but moved instead of copied.
  [[nodiscard]] std::vector<record::TrialRecord> effective() &&;
  /// The effective row of an id; nullptr when there is none.
  [[nodiscard]] const record::TrialRecord* find(const record::TrialId& id) const;
  /// How many rows are effective.
  [[nodiscard]] std::size_t size() const noexcept { return index_.size(); }
  /// Ids that occurred again without being retracted in between; the first row counts.
  [[nodiscard]] const std::vector<std::string>& duplicates() const noexcept { return duplicates_; }
  [[nodiscard]] std::size_t retracted() const noexcept { return retracted_; }

 private:
  void add_row(record::TrialRecord record);
  void retract(const std::vector<std::string>& ids);

  std::deque<std::optional<record::TrialRecord>> rows_;  // a deque, because its growth moves no row
  std::unordered_map<std::string, std::size_t> index_;   // id to its effective row
  std::vector<std::string> duplicates_;
  std::size_t retracted_ = 0;
};

/// Reads a journal without changing it. A torn last line is left out. Throws Error(not_found), and
/// Error(bad_file) with file and line for damage anywhere else.
[[nodiscard]] JournalRows read_journal(const std::filesystem::path& path);

/// A journal that can be appended to. One writer at a time: the campaign folder's lock ensures that.
class Journal {
 public:
  /// Opens or creates it, and cuts off a torn last line. Throws as read_journal and LineFile do.
  explicit Journal(const std::filesystem::path& path);

  [[nodiscard]] const JournalRows& rows() const noexcept { return rows_; }
  void append(const record::TrialRecord& record);
  /// Retracts rows, which then run again.
  void retract(const std::vector<std::string>& ids, const std::string& reason);
  void sync() { file_.sync(); }
  void sync_if_due() { file_.sync_if_due(); }
  [[nodiscard]] std::uint64_t torn_bytes() const noexcept { return file_.torn_bytes(); }

 private:
  LineFile file_;
  JournalRows rows_;
};

/// Compares effective rows, sorted by id, without their volatile fields: nullopt when equal, else one line
/// that names the first id that differs and how.
[[nodiscard]] std::optional<std::string> journal_difference(const std::vector<record::TrialRecord>& first,
                                                            const std::vector<record::TrialRecord>& second);

}  // namespace bitrift::campaign
