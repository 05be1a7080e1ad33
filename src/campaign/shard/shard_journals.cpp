#include "campaign/shard/shard_journals.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "campaign/plan/ends.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/shard_id.h"
#include "core/error.h"
#include "record/json/json_diff.h"

namespace bitrift::campaign {

void JournalTail::refresh() {
  problem_.clear();
  // The file is opened again each time: a network file system shows new data only to those who open the file
  // later.
  std::ifstream file(path_, std::ios::binary);
  if (!file) return;
  file.seekg(static_cast<std::streamoff>(bytes_));
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    const std::string place = fmt::format("{}:{}", path_.string(), lines_ + 1);
    try {
      rows_.add(entry_of_line(line, place));
    } catch (const Error& error) {
      problem_ = error.what();
      return;
    }
    bytes_ += line.size() + 1;
    ++lines_;
  }
}

void RowUnion::add(const std::vector<record::TrialRecord>& rows, const std::string& where) {
  for (const record::TrialRecord& row : rows) {
    const std::string id = row.id.text();
    const auto [known, first] = index_.emplace(id, rows_.size());
    if (first) {
      rows_.push_back(row);
      places_.push_back(where);
      continue;
    }
    ++doubles_;
    const record::TrialRecord& other = rows_[known->second];
    const auto difference = json_difference(record::stable_json(other), record::stable_json(row));
    if (!difference) continue;
    throw Misbehaviour(fmt::format(
        "{}: two runs of it gave different rows: {} is {} in {} (host {}) and {} in {} (host {}): "
        "`bitrift campaign replay` says which is right; remove the other journal",
        id, difference->key, difference->first, places_[known->second], other.host, difference->second, where,
        row.host));
  }
}

std::filesystem::path shard_folder(const std::filesystem::path& shards, int index, int count) {
  return shards / ShardId{index, count}.folder();
}

ShardJournals::ShardJournals(std::filesystem::path folder, int shards)
    : folder_(std::move(folder)), shards_(shards) {}

void ShardJournals::refresh() {
  std::set<std::pair<int, int>> known;
  for (const auto& one : starts_) known.emplace(one->shard, one->start);
  for (int shard = 1; shard <= shards_; ++shard) {
    const auto place = shard_folder(folder_, shard, shards_);
    const int last = last_lease(place);
    for (int start = 1; start <= last; ++start) {
      const auto folder = numbered_folder(place, start);
      const std::string name = place.filename().string() + "/" + folder.filename().string();
      if (known.contains({shard, start}) || without_.contains(name)) continue;
      starts_.push_back(std::make_unique<StartJournal>(
          StartJournal{shard, start, name, JournalTail(folder / "trials.jsonl")}));
    }
  }
  std::sort(starts_.begin(), starts_.end(), [](const auto& one, const auto& other) {
    return std::pair(one->shard, one->start) < std::pair(other->shard, other->start);
  });
  for (const auto& one : starts_) one->tail.refresh();
}

const record::TrialRecord* ShardJournals::find(const record::TrialId& id) const {
  for (const auto& one : starts_) {
    if (const record::TrialRecord* row = one->tail.rows().find(id)) return row;
  }
  return nullptr;
}

const record::TrialRecord* ShardJournals::find_in(int shard, const record::TrialId& id) const {
  for (const auto& one : starts_) {
    if (one->shard != shard) continue;
    if (const record::TrialRecord* row = one->tail.rows().find(id)) return row;
  }
  return nullptr;
}

void ShardJournals::add_to(RowUnion& all) const {
  for (const auto& one : starts_) all.add(one->tail.rows().effective(), one->name);
}

std::uint64_t ShardJournals::bytes_of(int shard) const {
  std::uint64_t bytes = 0;
  for (const auto& one : starts_) bytes += one->shard == shard ? one->tail.bytes() : 0;
  return bytes;
}

void ShardJournals::refuse_damage() const {
  for (const auto& one : starts_) {
    if (!one->tail.problem().empty()) fail(ErrorCode::bad_file, "{}", one->tail.problem());
  }
}

}  // namespace bitrift::campaign
