// A driver that shares a campaign's folder with others: its place, what it waits for, and what all must agree
// on (docs/campaign.md, "Shards").
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/plan/run_key.h"
#include "campaign/progress/progress.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/shard_id.h"
#include "campaign/shard/shard_journals.h"
#include "campaign/shard/stand_in.h"
#include "campaign/shard/vacancies.h"
#include "record/json/json.h"
#include "record/run.h"

namespace bitrift::campaign {

/// A part of the campaign that all shards must have finished before any of them continues.
struct Stage {
  std::string name;                       ///< "preparation" or "round-0003": names the marker files
  std::string words;                      ///< "round 3"
  std::vector<std::vector<RunKey>> runs;  ///< of every shard, shard 1 first
};

[[nodiscard]] Stage preparation_stage(const Plan& plan, int shards);
[[nodiscard]] Stage round_stage(const record::Round& round, int shards);

/// Whether a shard has published that it finished a stage.
[[nodiscard]] bool is_marked(const Layout& layout, const ShardId& shard, const std::string& stage);

/// How long a driver waits for others.
struct Patience {
  std::optional<double> wait_hours;                  ///< without a new row of theirs; absent: for ever
  std::chrono::duration<double> stand_in_after{30};  ///< until it stands in for a shard without a driver
};

/// The golden run of an arm and a data order, as the first shard found it.
struct SharedGolden {
  record::RunResult result;
  std::string origin;  ///< "shard 1/3 on host a (processor ...)"
};

class Shard {
 public:
  /// Takes the shard for this process: waits until an earlier start on another machine has been silent for
  /// long enough, or until another shard's driver that stands in hands it over. Throws Error(busy) when
  /// another driver runs this shard, Error(bad_file) when an earlier start's journal is damaged, Interrupted.
  /// progress must outlive the shard.
  Shard(const Layout& layout, const ShardId& id, const Patience& patience, Progress& progress);
  ~Shard();
  Shard(Shard&&) = delete;
  Shard& operator=(Shard&&) = delete;

  [[nodiscard]] const ShardId& id() const noexcept { return id_; }
  [[nodiscard]] DriverPlace place() const { return {lease_->folder()}; }
  /// The folder through which the files that killed starts of this shard left on its machine are found again.
  [[nodiscard]] std::filesystem::path scratch_root() const { return lease_->folder().parent_path(); }
  [[nodiscard]] const ShardJournals& others() const noexcept { return journals_; }

  /// Calls `make` (Folder::prepare_bases) when no other shard is doing so; returns once the bases exist.
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

  /// Declares that all runs of the stage are in this shard's journals and will not be retracted; `own` is
  /// synced.
  void finish(const Stage& stage, Journal& own);
  /// The same for the shard that this driver stands in for.
  void finish(const Stage& stage, StandIn& other);
  [[nodiscard]] bool has_finished(const Stage& stage) const { return is_marked(layout_, id_, stage.name); }
  /// Waits until every shard has finished the stage and all their rows can be read here: nullptr. Or until a
  /// shard that has not finished it has been without a driver for long enough: its stand-in, which must end
  /// before the next call. Says on stderr which shards are missing. tick: called at least every 100 ms.
  /// Throws what it throws; Error(busy) when --wait-hours have passed without a new row from a missing shard;
  /// Error(bad_file) when a finished journal cannot be read.
  [[nodiscard]] std::unique_ptr<StandIn> meet(const Stage& stage, const std::function<void()>& tick);
  /// The driver of a shard that this one stands in for is here: others leave the shard to it for a while.
  void give_back(const StandIn& other) { vacancies_.give_back(other.id().index); }
  /// Throws Error(busy) when another start has taken this one for dead and runs in its place.
  void check_held() const;
  /// How this start ends, for the shards that wait for it.
  void set_end(const std::string& text) { lease_->set_end(text); }

 private:
  struct Watch;  // what is known about a shard that others wait for
  void take(const LeaseTimes& times);
  void publish(const Stage& stage, int shard, const std::filesystem::path& own_journal);
  [[nodiscard]] std::unique_ptr<StandIn> stand_in(const std::set<int>& missing);
  [[nodiscard]] std::filesystem::path golden_path(std::size_t arm, int order) const;
  [[nodiscard]] bool is_through(int shard, const Stage& stage, Watch& watch) const;
  [[nodiscard]] std::string account(int shard, const Stage& stage, const Watch& watch) const;
  [[nodiscard]] std::string own_origin() const;

  Layout layout_;
  ShardId id_;
  Patience patience_;
  Progress& progress_;
  std::unique_ptr<Lease> lease_;
  ShardJournals journals_;
  Vacancies vacancies_;
  std::string processor_;
  bool noted_ = false;
};

}  // namespace bitrift::campaign
