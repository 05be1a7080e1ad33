// The rows of a study, in a file that survives a kill at any moment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "campaign/journal/line_file.h"
#include "study/row/study_row.h"

namespace bitrift::study {

/// Lines as in a campaign's journal (docs/journal.md): a CRC-32C and the row. One writer at a time.
class StudyJournal {
 public:
  /// Opens or creates; cuts a torn last line. Throws Error(io), and Error(bad_file) with file and line for
  /// damage anywhere else, and for a duplicate row.
  explicit StudyJournal(const std::filesystem::path& path);

  [[nodiscard]] const std::vector<StudyRow>& rows() const noexcept { return rows_; }
  /// nullptr: no row has this id.
  [[nodiscard]] const StudyRow* find(const std::string& id) const;
  void append(StudyRow row);
  void sync() { file_.sync(); }
  [[nodiscard]] std::uint64_t torn_bytes() const noexcept { return file_.torn_bytes(); }

 private:
  void add(StudyRow row, const std::string& place);

  campaign::LineFile file_;
  std::vector<StudyRow> rows_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace bitrift::study
