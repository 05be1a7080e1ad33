#include "campaign/journal/journal.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "core/crc32c.h"
#include "core/error.h"
#include "record/json/json_diff.h"

namespace bitrift::campaign {
namespace {

using record::Json;
using record::TrialRecord;

constexpr std::string_view line_start = R"({"crc32c":")";
constexpr std::string_view line_middle = R"(","row":)";
constexpr std::size_t crc_digits = 8;
constexpr const char* remedy = "remove this line (its run will be repeated) or restore the file";

std::map<std::string, const TrialRecord*> by_id(const std::vector<TrialRecord>& rows) {
  std::map<std::string, const TrialRecord*> result;
  for (const TrialRecord& row : rows) result.emplace(row.id.text(), &row);
  return result;
}

/// Lines that one thread parses.
struct Lines {
  std::uint64_t first = 1;  ///< number of the first one
  std::vector<std::string> texts;
};

/// The next whole lines of a file, without a torn last one; none at the end of the file.
Lines next_lines(std::istream& file, std::uint64_t first) {
  constexpr std::size_t most = 2'000;  // parsing this many takes about 20 ms, starting a thread 0.05 ms
  Lines lines{first, {}};
  std::string line;
  while (lines.texts.size() < most && std::getline(file, line) && !file.eof())
    lines.texts.push_back(std::move(line));
  return lines;
}

std::vector<JournalEntry> entries_of(const std::string& path, const Lines& lines) {
  std::vector<JournalEntry> entries;
  entries.reserve(lines.texts.size());
  for (const std::string& text : lines.texts)
    entries.push_back(entry_of_line(text, fmt::format("{}:{}", path, lines.first + entries.size())));
  return entries;
}

}  // namespace

std::string journal_line(const Json& row) {
  const std::string text = row.dump();
  return fmt::format("{}{:08x}{}{}}}", line_start, crc32c(text.data(), text.size()), line_middle, text);
}

Json row_of_line(std::string_view line, const std::string& place) {
  const std::size_t head = line_start.size() + crc_digits + line_middle.size();
  if (line.size() <= head + 1 || !line.starts_with(line_start) || !line.ends_with('}') ||
      line.substr(line_start.size() + crc_digits, line_middle.size()) != line_middle) {
    fail(ErrorCode::bad_file, "{}: not a journal line; {}", place, remedy);
  }
  const std::string_view digits = line.substr(line_start.size(), crc_digits);
  std::uint32_t stored = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), stored, 16);
  const std::string_view row = line.substr(head, line.size() - head - 1);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() ||
      crc32c(row.data(), row.size()) != stored) {
    fail(ErrorCode::bad_file, "{}: damaged journal line (its checksum does not match); {}", place, remedy);
  }
  try {
    return Json::parse(row);
  } catch (const Json::exception&) {
    fail(ErrorCode::bad_file, "{}: the journal line is not JSON; {}", place, remedy);
  }
}

JournalEntry entry_of_line(std::string_view line, const std::string& place) {
  const Json row = row_of_line(line, place);
  try {
    if (row.at("kind") == "retract") return row.at("ids").get<std::vector<std::string>>();
    return record::trial_record_from_json(row);
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: not a journal row ({}); {}", place, error.what(), remedy);
  } catch (const Error& error) {
    fail(ErrorCode::bad_file, "{}: {}", place, error.what());
  }
}

void JournalRows::add(JournalEntry entry) {
  if (auto* row = std::get_if<TrialRecord>(&entry)) {
    add_row(std::move(*row));
  } else {
    retract(std::get<std::vector<std::string>>(entry));
  }
}

void JournalRows::add_row(TrialRecord record) {
  const std::string id = record.id.text();
  if (!index_.emplace(id, rows_.size()).second) {
    duplicates_.push_back(id);
    return;
  }
  rows_.emplace_back(std::move(record));
}

void JournalRows::retract(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    const auto found = index_.find(id);
    if (found == index_.end()) continue;
    rows_[found->second].reset();
    index_.erase(found);
    ++retracted_;
  }
}

std::vector<TrialRecord> JournalRows::effective() const& {
  std::vector<TrialRecord> result;
  result.reserve(index_.size());
  for (const auto& row : rows_) {
    if (row) result.push_back(*row);
  }
  return result;
}

std::vector<TrialRecord> JournalRows::effective() && {
  std::vector<TrialRecord> result;
  result.reserve(index_.size());
  for (auto& row : rows_) {
    if (row) result.push_back(std::move(*row));
  }
  *this = {};
  return result;
}

const TrialRecord* JournalRows::find(const record::TrialId& id) const {
  const auto found = index_.find(id.text());
  return found == index_.end() ? nullptr : &*rows_[found->second];
}

JournalRows read_journal(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file && std::filesystem::exists(path.parent_path() / "shards")) {
    fail(ErrorCode::not_found,
         "{}: does not exist yet; its rows are in the shards' journals: run `bitrift campaign merge {}`",
         path.string(), path.parent_path().string());
  }
  if (!file) {
    fail(ErrorCode::not_found, "{}: cannot be opened; start the campaign with `bitrift campaign run`",
         path.string());
  }
  JournalRows rows;
  std::deque<std::future<std::vector<JournalEntry>>> parsing;  // in the order of the file
  const auto take_first = [&] {
    for (JournalEntry& entry : parsing.front().get()) rows.add(std::move(entry));
    parsing.pop_front();
  };
  const std::size_t at_once = std::max(1U, std::thread::hardware_concurrency()) + 1;
  std::uint64_t next = 1;
  for (Lines block = next_lines(file, next); !block.texts.empty(); block = next_lines(file, next)) {
    next += block.texts.size();
    if (parsing.size() == at_once) take_first();
    parsing.push_back(std::async(std::launch::async, entries_of, path.string(), std::move(block)));
  }
  while (!parsing.empty()) take_first();
  if (file.bad()) fail(ErrorCode::io, "{}: cannot be read", path.string());
  return rows;
}

Journal::Journal(const std::filesystem::path& path) : file_(path), rows_(read_journal(path)) {}

void Journal::append(const TrialRecord& record) {
  file_.append(journal_line(record::to_json(record)));
  rows_.add(record);
}

void Journal::retract(const std::vector<std::string>& ids, const std::string& reason) {
  const Json row = {{"kind", "retract"}, {"ids", ids}, {"reason", reason}};
  file_.append(journal_line(row));
  rows_.add(ids);
}

std::optional<std::string> journal_difference(const std::vector<TrialRecord>& first,
                                              const std::vector<TrialRecord>& second) {
  const auto ours = by_id(first);
  const auto theirs = by_id(second);
  for (const auto& [id, row] : ours) {
    const auto other = theirs.find(id);
    if (other == theirs.end()) return fmt::format("{}: only in the first journal", id);
    const auto difference = json_difference(record::stable_json(*row), record::stable_json(*other->second));
    if (difference) {
      return fmt::format("{}: {} is {} in the first journal and {} in the second", id, difference->key,
                         difference->first, difference->second);
    }
  }
  for (const auto& item : theirs) {
    if (!ours.contains(item.first)) return fmt::format("{}: only in the second journal", item.first);
  }
  return std::nullopt;
}

}  // namespace bitrift::campaign
