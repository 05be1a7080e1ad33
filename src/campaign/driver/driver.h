// What a campaign gives the pool: faults for its runs, and a row for each finished run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "campaign/folder/base_watch.h"
#include "campaign/folder/folder.h"
#include "campaign/plan/drills.h"
#include "campaign/plan/golden_runs.h"
#include "campaign/plan/plan.h"
#include "campaign/progress/progress.h"
#include "campaign/progress/running_rates.h"
#include "campaign/shard/ledger.h"
#include "campaign/shard/shards.h"
#include "campaign/worker/pool.h"

namespace bitrift::campaign {

/// The row of a run that is over. Throws Misbehaviour when a run that must land (a trial's flip, a rank that
/// must fail, or a run without faults) did not. A canary that did not land is kept: judging canaries is the
/// task of the analysis.
[[nodiscard]] record::TrialRecord row_of(const Ran& ran, std::uint64_t stratum_bits, const Drills& drills);

/// Watches over the runs of a campaign and writes them down.
class Driver : public PoolObserver {
 public:
  /// All must outlive the driver. shard: nullptr when the campaign is undivided.
  Driver(Folder& folder, const Drills& drills, const Plan& plan, Ledger& ledger, Shard* shard,
         Progress& progress);
  ~Driver() override;
  Driver(Driver&&) = delete;
  Driver& operator=(Driver&&) = delete;

  /// The runs of this shard that its journals do not hold yet, in the order in which they run; trials: of the
  /// last round of the plan.
  [[nodiscard]] std::vector<Job> preparation_jobs() const;
  [[nodiscard]] std::vector<Job> trial_jobs() const;
  /// The shard whose runs these are: its own, unless it stands in for another.
  [[nodiscard]] ShardId shard() const;
  /// Declares that the runs of that shard are finished.
  void finish(const Stage& stage);
  [[nodiscard]] bool has_finished(const Stage& stage) const { return shard_ && shard_->has_finished(stage); }
  /// Returns nullptr when all shards have finished a stage, as this one has; or a stand-in for one that has
  /// no driver.
  [[nodiscard]] std::unique_ptr<StandIn> meet(const Stage& stage);
  /// From then on runs are those of that shard; nullptr: its own again.
  void stand_in(StandIn* other);
  [[nodiscard]] std::size_t incidents() const noexcept { return incidents_; }

  record::TrialSpec expand(const RunKey& key) override;
  double deadline_s(std::size_t arm) override;
  bool golden_known(std::size_t arm, int order) override;
  void on_ready(std::size_t arm, const record::Ready& ready) override;
  std::optional<std::string> on_check(std::size_t arm, int order, const record::RunResult& result) override;
  void on_doubt(std::size_t arm, const std::vector<RunKey>& runs, const std::string& why) override;
  void on_run(const Ran& ran) override;
  void on_incident(const Incident& incident) override;
  void on_slow_start(const std::string& text) override;
  void on_tick() override;
  /// The preparation is finished and behaves: from here on the progress shows the rates of the trials.
  void show_rates();
  /// A round was planned: the rates shown are those of all rounds.
  void show_round();
  /// From then on on_tick throws OutOfTime.
  void end_at(std::chrono::steady_clock::time_point end) { end_ = end; }

 private:
  [[nodiscard]] const std::string& arm_name(std::size_t arm) const { return plan_.spec().arms[arm].name; }
  [[nodiscard]] Ledger& ledger() const { return other_ == nullptr ? ledger_ : other_->ledger(); }
  void check_clean(const Ran& ran);
  void check_golden(std::size_t arm, int order, const record::RunResult& result, const std::string& what);
  void check_bases();

  Folder& folder_;
  const Drills& drills_;
  const Plan& plan_;
  Ledger& ledger_;
  Shard* shard_;
  StandIn* other_ = nullptr;  // the shard for which it stands in
  Progress& progress_;
  std::vector<BaseWatch> watches_;  // one per base
  Controls controls_;
  LineFile incident_file_;
  std::size_t incidents_ = 0;
  std::map<std::pair<std::size_t, std::string>, std::string>
      base_digests_;  // state digest by base file and guards
  std::optional<RunningRates> rates_;
  std::set<std::string> leaked_;                  // runs whose drill `leak` was sent
  std::set<std::pair<std::size_t, int>> agreed_;  // arms and orders whose golden run is that of all shards
  std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace bitrift::campaign
