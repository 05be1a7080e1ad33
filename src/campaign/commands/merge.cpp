#include "campaign/commands/merge.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "campaign/journal/journal.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/shard_journals.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "record/json/json.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// The sizes of all journals: at the last merge, and now.
std::filesystem::path stamp_of(const Layout& layout) { return layout.shards() / "merged.json"; }

Json sizes_now(const Layout& layout, int shards) {
  Json sizes = Json::object();
  for (int shard = 1; shard <= shards; ++shard) {
    const auto folder = shard_folder(layout.shards(), shard, shards);
    for (int start = 1; start <= last_lease(folder); ++start) {
      const DriverPlace place{numbered_folder(folder, start)};
      std::error_code error;
      const auto size = std::filesystem::file_size(place.journal(), error);
      const std::string name = folder.filename().string() + "/" + place.root.filename().string();
      if (!error && size > 0) sizes[name] = size;
    }
  }
  return sizes;
}

void write_journal(const std::filesystem::path& path, std::vector<record::TrialRecord> rows) {
  std::sort(rows.begin(), rows.end(), [](const auto& one, const auto& other) { return one.id < other.id; });
  PendingFile pending(path);
  {
    std::ofstream file(pending.path(), std::ios::binary);
    for (const record::TrialRecord& row : rows) file << journal_line(record::to_json(row)) << '\n';
    file.close();
    if (!file)
      fail(ErrorCode::io, "{}: cannot be written: free some disk space and merge again", path.string());
  }
  pending.commit();
}

void write_incidents(const Layout& layout, const ShardJournals& journals) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& one : journals.starts()) {
    std::ifstream file(DriverPlace{one->tail.path().parent_path()}.incidents());
    std::string line;
    while (std::getline(file, line) && !file.eof()) {
      const Json value = Json::parse(line, nullptr, false);
      lines.emplace_back(value.is_object() ? value.value("time", "") : "", line);
    }
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& line : lines) text += line.second + "\n";
  replace_text(layout.incidents(), text);
}

}  // namespace

Merged merge_shards(const Layout& layout) {
  const int shards = read_stored_campaign(layout).shards;
  if (shards == 0) {
    fail(ErrorCode::bad_input, "{}: was not run with --shard: its journal needs no merge",
         layout.root.string());
  }
  const Json sizes = sizes_now(layout, shards);
  ShardJournals journals(layout.shards(), shards);
  journals.refresh();
  journals.refuse_damage();
  RowUnion all;
  journals.add_to(all);
  write_journal(layout.journal(), all.rows());
  write_incidents(layout, journals);
  replace_text(stamp_of(layout), Json{{"journals", sizes}}.dump(2) + "\n");
  Merged merged{all.rows().size(), journals.starts().size(), all.doubles(), 0};
  for (const auto& one : journals.starts()) merged.retracted += one->tail.rows().retracted();
  return merged;
}

bool is_merged(const Layout& layout) {
  const int shards = read_stored_campaign(layout).shards;
  if (shards == 0) return true;
  if (!std::filesystem::exists(layout.journal()) || !std::filesystem::exists(stamp_of(layout))) return false;
  return record::parse_file(stamp_of(layout)).value.value("journals", Json()) == sizes_now(layout, shards);
}

void warn_unless_merged(const Layout& layout) {
  if (is_merged(layout)) return;
  spdlog::warn(
      "{}: shards have written more since the last merge; run `bitrift campaign merge {}` to include it",
      layout.journal().string(), layout.root.string());
}

}  // namespace bitrift::campaign
