// A driver among several that share a campaign's folder: its place, what it waits for, what all must agree on
// (docs/campaign.md, "Shards").
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/progress/progress.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/shard_id.h"
#include "campaign/shard/shard_journals.h"
#include "record/json/json.h"
#include "record/run.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// A part of the campaign that all shards must have finished before any of them continues.
struct Stage {
  std::string name;                                ///< "preparation" or "round-0003": names the marker files
  std::string words;                               ///< "round 3"
  std::vector<std::vector<record::TrialId>> runs;  ///< of every shard, shard 1 first
};

[[nodiscard]] Stage preparation_stage(const Plan& plan, int shards);
[[nodiscard]] Stage round_stage(const record::Round& round, int shards);

/// The golden run of an arm and a data order, as the shard that was first found it.
struct SharedGolden {
  record::RunResult result;
  std::string origin;  ///< "shard 1/3 on host a (processor ...)"
};

class Shard {
 public:
  /// Takes the shard for this process: waits until an earlier start on another machine was silent for long
  /// enough. wait_hours: bounds every waiting for other shards. Throws Error(busy) when another driver runs
  /// this shard, Error(bad_file) when an earlier start's journal is damaged, Interrupted. progress must
  /// outlive the shard.
  Shard(const Layout& layout, const ShardId& id, std::optional<double> wait_hours, Progress& progress);
  ~Shard();
  Shard(Shard&&) = delete;
  Shard& operator=(Shard&&) = delete;

  [[nodiscard]] const ShardId& id() const noexcept { return id_; }
  [[nodiscard]] DriverPlace place() const { return {lease_->folder()}; }
  /// Folder by which what killed starts of this shard left on its machine is found again.
  [[nodiscard]] std::filesystem::path scratch_root() const { return lease_->folder().parent_path(); }
  [[nodiscard]] const ShardJournals& others() const noexcept { return journals_; }

  /// Calls `make` (Folder::prepare_bases) when no other shard is at it; returns once the bases are there.
  void prepare_bases(Folder& folder, const std::function<void()>& make);
  /// Calls `act` while no other shard makes bases or calls this.
  void alone(const std::function<void()>& act);
  /// Keeps what the first worker said about its libraries and processor.
  void note_trainer(const record::Json& environment);
  /// Makes this the campaign's golden run of the arm and order unless there is one; returns the campaign's.
  [[nodiscard]] SharedGolden agree(std::size_t arm, int order, const record::RunResult& result);
  /// The golden run that an earlier shard or start published.
  [[nodiscard]] std::optional<SharedGolden> golden(std::size_t arm, int order) const;
  /// " (the golden run is that of ...; this is ...)" for messages about runs that differ from it.
  [[nodiscard]] std::string origins(std::size_t arm, int order) const;

  /// Says that all runs of the stage are in this shard's journals and will not be taken back; `own` is
  /// synced.
  void finish(const Stage& stage, Journal& own);
  /// Waits until every shard has finished the stage and all their rows can be read here. Says on stderr who
  /// is missing. tick: called at least every 100 ms. Throws what it throws; Error(busy) when --wait-hours are
  /// over without a new row from a shard that is missing; Error(bad_file) when a finished journal cannot be
  /// read.
  void meet(const Stage& stage, const std::function<void()>& tick);
  /// Throws Error(busy) when another start has taken this one for dead and works in its place.
  void check_held() const;
  /// How this start ends, for those who wait for it.
  void set_end(const std::string& text) { lease_->set_end(text); }

 private:
  struct Watch;  // what is known of a shard that is waited for
  void take(const LeaseTimes& times);
  [[nodiscard]] std::filesystem::path marker(int shard, const Stage& stage) const;
  [[nodiscard]] std::filesystem::path golden_path(std::size_t arm, int order) const;
  [[nodiscard]] bool is_through(int shard, const Stage& stage, Watch& watch) const;
  [[nodiscard]] std::string account(int shard, const Stage& stage, const Watch& watch) const;
  [[nodiscard]] std::string own_origin() const;

  Layout layout_;
  ShardId id_;
  std::optional<double> wait_hours_;
  Progress& progress_;
  std::unique_ptr<Lease> lease_;
  ShardJournals journals_;
  std::string processor_;
  bool noted_ = false;
};

}  // namespace bitrift::campaign
