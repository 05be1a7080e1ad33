// The journals of a campaign's shards, read while they grow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "campaign/journal/journal.h"

namespace bitrift::campaign {

/// Reads the new part of a journal that another process may be writing.
class JournalTail {
 public:
  explicit JournalTail(std::filesystem::path path) : path_(std::move(path)) {}
  /// Returns the whole lines that were added since the last call. Stops before a line that cannot be read:
  /// over a network the end of a file can be seen before what precedes it, so it may be whole at the next
  /// look; until then problem() says what is wrong.
  void refresh();
  [[nodiscard]] const JournalRows& rows() const noexcept { return rows_; }
  /// How much of the file has been read.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  JournalRows rows_;
  std::uint64_t bytes_ = 0, lines_ = 0;
  std::string problem_;
};

/// Rows of several journals, each id once: the first one counts. Rows of one id must be equal, for a row is a
/// function of its id.
class RowUnion {
 public:
  /// where: names the journal in messages. Throws Misbehaviour that names id, key and both journals when a
  /// row differs from the one that is there.
  void add(const std::vector<record::TrialRecord>& rows, const std::string& where);
  [[nodiscard]] const std::vector<record::TrialRecord>& rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t doubles() const noexcept { return doubles_; }

 private:
  std::vector<record::TrialRecord> rows_;
  std::vector<std::string> places_;  // of the row at the same position
  std::map<std::string, std::size_t> index_;
  std::size_t doubles_ = 0;
};

/// The journal that one start of one shard wrote.
struct StartJournal {
  int shard = 1;
  int start = 1;
  std::string name;  ///< "2-of-3/0001"
  JournalTail tail;
};

/// All starts of all shards.
class ShardJournals {
 public:
  /// folder: DIR/shards.
  ShardJournals(std::filesystem::path folder, int shards);
  /// Ignores a start, "2-of-3/0004", that this process writes itself; until read_again(). Call it before the
  /// start's first row.
  void leave_out(const std::string& name) { without_.insert(name); }
  void read_again(const std::string& name) { without_.erase(name); }
  /// Finds new starts and reads their new lines. Throws Error(io).
  void refresh();
  /// Effective row of an id, in any journal or in those of one shard (from 1); nullptr when there is none.
  [[nodiscard]] const record::TrialRecord* find(const record::TrialId& id) const;
  [[nodiscard]] const record::TrialRecord* find_in(int shard, const record::TrialId& id) const;
  /// Adds all effective rows, by shard and start.
  void add_to(RowUnion& all) const;
  [[nodiscard]] const std::vector<std::unique_ptr<StartJournal>>& starts() const noexcept { return starts_; }
  /// Lines of one shard that have been read so far.
  [[nodiscard]] std::uint64_t bytes_of(int shard) const;
  /// Throws Error(bad_file) with the first problem(); only for journals that are no longer being written.
  void refuse_damage() const;

 private:
  std::filesystem::path folder_;
  int shards_;
  std::set<std::string> without_;
  std::vector<std::unique_ptr<StartJournal>> starts_;  // sorted by shard and start
};

/// Folder of a shard's starts: DIR/shards/2-of-3.
[[nodiscard]] std::filesystem::path shard_folder(const std::filesystem::path& shards, int index, int count);

}  // namespace bitrift::campaign
