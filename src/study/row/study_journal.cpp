#include "study/row/study_journal.h"

#include <fstream>
#include <utility>

#include "campaign/journal/journal.h"
#include "core/error.h"

namespace bitrift::study {

StudyJournal::StudyJournal(const std::filesystem::path& path) : file_(path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string place = fmt::format("{}:{}", path.string(), ++number);
    const record::Json value = campaign::row_of_line(line, place);
    try {
      add(study_row_from_json(value), place);
    } catch (const record::Json::exception& error) {
      fail(ErrorCode::bad_file, "{}: not a row of a study ({}); restore the file", place, error.what());
    }
  }
  if (file.bad()) fail(ErrorCode::io, "{}: cannot be read", path.string());
}

const StudyRow* StudyJournal::find(const std::string& id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : &rows_[found->second];
}

void StudyJournal::append(StudyRow row) {
  file_.append(campaign::journal_line(to_json(row)));
  file_.sync_if_due();
  add(std::move(row), file_.path().string());
}

void StudyJournal::add(StudyRow row, const std::string& place) {
  if (!index_.emplace(row.id(), rows_.size()).second)
    fail(ErrorCode::bad_file, "{}: {} is there twice; restore the file", place, row.id());
  rows_.push_back(std::move(row));
}

}  // namespace bitrift::study
