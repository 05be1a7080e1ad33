// A campaign from its start, or from wherever it stopped, to its last trial.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "campaign/base_watch.h"
#include "campaign/controls.h"
#include "campaign/drills.h"
#include "campaign/folder.h"
#include "campaign/journal.h"
#include "campaign/plan.h"
#include "campaign/pool.h"
#include "campaign/progress.h"
#include "campaign/running_rates.h"

namespace bitrift::campaign {

struct RunOptions {
  std::filesystem::path spec;
  std::filesystem::path folder;
  std::vector<std::string> overrides;             ///< key=value
  std::vector<std::string> drills;                ///< see parse_drills
  std::optional<int> workers;                     ///< groups side by side; absent: what the cores hold
  std::vector<std::string> command;               ///< for the provenance
  std::optional<std::filesystem::path> work_dir;  ///< for private copies; absent: see WorkPlace
  bool ignore_space = false;                      ///< starts although the disk looks too small
  std::optional<double> max_hours;                ///< of this start, from its first moment
};

struct RunReport {
  std::vector<std::string> problems;  ///< why the harness may not be believed; empty when all is well
  std::size_t incidents = 0;          ///< of this start
  std::string unfinished;             ///< why it ended before its plan did; "" when it did not
  bool judged = false;                ///< controls and canaries are complete and behave
};

/// Runs the campaign: base, controls, envelope, canaries, trials. What the journal holds already is not run
/// again. Throws Error, and Interrupted after SIGINT, SIGTERM or SIGHUP; nothing recorded is lost then, and
/// no process is left.
[[nodiscard]] RunReport run_campaign(const RunOptions& options, Progress& progress);

/// The row of a run that is over. Throws Misbehaviour when a run that must land (a trial's flip, or a run
/// without faults) did not. A canary that did not land is kept: judging canaries is the analysis' part.
[[nodiscard]] record::TrialRecord row_of(const Ran& ran, std::uint64_t stratum_bits, const Drills& drills);

/// Watches over the runs of a campaign and writes them down.
class Driver : public PoolObserver {
 public:
  /// All must outlive the driver.
  Driver(Folder& folder, const Drills& drills, const Plan& plan, Journal& journal, Progress& progress);
  ~Driver() override;
  Driver(Driver&&) = delete;
  Driver& operator=(Driver&&) = delete;

  /// What the journal does not hold yet, in the order in which it runs.
  [[nodiscard]] std::vector<Job> preparation_jobs() const;
  [[nodiscard]] std::vector<Job> trial_jobs() const;
  [[nodiscard]] std::size_t incidents() const noexcept { return incidents_; }

  record::TrialSpec expand(const RunKey& key) override;
  double deadline_s(std::size_t arm) override;
  bool golden_known(std::size_t arm) override;
  void on_ready(std::size_t arm, const record::Ready& ready) override;
  std::optional<std::string> on_check(std::size_t arm, const record::RunResult& result) override;
  void on_doubt(std::size_t arm, const std::vector<RunKey>& runs, const std::string& why) override;
  void on_run(const Ran& ran) override;
  void on_incident(const Incident& incident) override;
  void on_tick() override;
  /// Preparation is over and behaves: from here on the progress shows the rates of the trials.
  void show_rates();
  /// From then on on_tick throws OutOfTime.
  void end_at(std::chrono::steady_clock::time_point end) { end_ = end; }

 private:
  [[nodiscard]] const std::string& arm_name(std::size_t arm) const { return plan_.spec().arms[arm].name; }
  void check_clean(const Ran& ran);
  void check_bases();

  Folder& folder_;
  const Drills& drills_;
  const Plan& plan_;
  Journal& journal_;
  Progress& progress_;
  std::vector<BaseWatch> watches_;  // one per base
  Controls controls_;
  LineFile incident_file_;
  std::size_t incidents_ = 0;
  std::map<std::pair<std::size_t, std::string>, std::string>
      base_digests_;  // state digest by base file and guards
  std::optional<RunningRates> rates_;
  std::set<std::string> leaked_;  // runs whose drill `leak` was sent
  std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace bitrift::campaign
