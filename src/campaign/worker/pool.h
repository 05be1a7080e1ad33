// Runs jobs on workers: who gets what, what happens to a run whose worker dies, when a worker starts and
// ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "campaign/plan/plan.h"
#include "campaign/worker/job.h"
#include "campaign/worker/pool_options.h"
#include "campaign/worker/worker.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// What the pool asks the owner of the campaign for, and reports to it. Any of these may throw, which ends
/// all runs.
class PoolObserver {
 public:
  virtual ~PoolObserver() = default;
  virtual record::TrialSpec expand(const RunKey& key) = 0;
  /// Seconds that a run of this arm may take.
  virtual double deadline_s(std::size_t arm) = 0;
  /// Whether the arm's golden run of this data order is known, so that a worker can be checked against it.
  virtual bool golden_known(std::size_t arm, int order) = 0;
  virtual void on_ready(std::size_t arm, const record::Ready& ready) = 0;
  /// The no-flip run that every worker makes before anything else, before its first trial of each golden data
  /// order, and again and again: how it differs from the golden run of that order, or nullopt.
  virtual std::optional<std::string> on_check(std::size_t arm, int order,
                                              const record::RunResult& result) = 0;
  /// A worker equalled the golden run once and now does not (`why`): the runs in between are discarded and
  /// will run again.
  virtual void on_doubt(std::size_t arm, const std::vector<RunKey>& runs, const std::string& why) = 0;
  virtual void on_run(const Ran& ran) = 0;
  virtual void on_incident(const Incident& incident) = 0;
  /// A worker takes long to start; the text says what it waits for.
  virtual void on_slow_start(const std::string& text) = 0;
  /// Called at least every 100 ms.
  virtual void on_tick() = 0;
};

/// An idle worker blocks on its socket: it costs memory (about 330 MB a rank, waiting ranks included), no
/// time.
constexpr int most_parked_ranks = 6;

struct Crew;

/// Rule for a run whose worker is lost: an incident, then once more alone (no other worker alive, a fresh
/// worker, three times the deadline). The same failure (reason and signal) twice becomes the run's outcome; a
/// result becomes that result; after three different failures the last one counts. Where the recovery is
/// relaunch, a worker that ends because a rank failed on purpose is neither an incident nor a failure:
/// another worker continues the run.
class Pool {
 public:
  /// observer and bases must outlive the pool.
  Pool(PoolOptions options, PoolObserver& observer, const Bases& bases);
  ~Pool();  ///< kills every worker

  /// Runs all jobs; returns when each of their runs was given to on_run. Workers stay for the next call.
  /// Throws Error when workers cannot be started (see Launch::failing_starts), and whatever the observer
  /// throws.
  void run(std::vector<Job> jobs);
  /// Asks all workers to finish and waits for them (at most about five seconds).
  void retire();

 private:
  void run_alone();
  void loop();
  void wait_for_news();
  [[nodiscard]] bool busy() const;
  bool assign_one();
  [[nodiscard]] bool fits(int ranks) const;
  Crew* idle_crew(std::size_t arm);
  Crew& add_crew(std::size_t arm);
  bool limit_parked();
  void watch_limits();
  void feed(Crew& crew);
  [[nodiscard]] bool too_weak(const Crew& crew, record::TrialKind kind) const;
  void dismiss(Crew& crew);
  void check(Crew& crew, int order);
  void judge_check(Crew& crew, const record::RunResult& result);
  bool check_the_rest();
  void doubt(Crew& crew, const std::string& why);
  void request(Crew& crew, const RunKey& key);
  void handle(Crew& crew, const WorkerEvent& event);
  void finished(Crew& crew, const record::RunResult& result);
  void over(Job& job, Ran& ran);
  [[nodiscard]] bool ends_with_a_rank(const Crew& crew) const;
  bool launch_again(Crew& crew);
  [[nodiscard]] bool own_program_is_slow(const WorkerLost& loss) const;
  void lost(Crew& crew, const WorkerLost& loss);
  void run_failed(Job job, const Ran& attempt);

  PoolOptions options_;
  PoolObserver& observer_;
  const Bases& bases_;
  std::vector<std::deque<Job>> queues_;  // one per arm
  std::deque<Job> failed_;               // runs to be repeated, alone
  std::vector<std::unique_ptr<Crew>> crews_;
  bool alone_ = false;
  Clock::time_point next_watch_;
  int failed_starts_ = 0;  // in a row
  int doubts_ = 0;
  int cores_;
};

}  // namespace bitrift::campaign
