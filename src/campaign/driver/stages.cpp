#include "campaign/driver/stages.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "analyze/allocate.h"
#include "analyze/verdict/trust.h"
#include "campaign/plan/ends.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

std::size_t count_runs(const std::vector<Job>& jobs) {
  std::size_t runs = 0;
  for (const Job& job : jobs) runs += job.runs.size();
  return runs;
}

std::size_t count_done(const std::vector<Job>& missing, std::size_t total) {
  const std::size_t left = count_runs(missing);
  return total > left ? total - left : 0;
}

bool holds_run_in_turn(const Job& job) {
  return std::any_of(job.runs.begin(), job.runs.end(), [](const RunKey& key) { return in_turn(key.kind); });
}

std::string round_name(const record::Round& round, const design::CampaignSpec& spec) {
  if (!spec.sampling) return "trials";
  std::string name = fmt::format("round {}", round.number);
  if (const record::Reached* widest = round.widest()) {
    name +=
        fmt::format(" (+-{:.2f} of {:g} points)", 100 * widest->half_width, 100 * spec.sampling->half_width);
  }
  return name;
}

// While it exists, the driver runs another shard's part.
class StandingIn {
 public:
  StandingIn(Driver& driver, StandIn& other) : driver_(driver) { driver.stand_in(&other); }
  ~StandingIn() { driver_.stand_in(nullptr); }
  StandingIn(StandingIn&&) = delete;
  StandingIn& operator=(StandingIn&&) = delete;

 private:
  Driver& driver_;
};

}  // namespace

// If a stand-in ran this shard's part of the preparation, its controls and canaries are still missing.
void Stages::examine_machine() { at_.pool.run(at_.driver.preparation_jobs()); }

// In parts, so that the shard's own driver need not wait long. At the end of each part every worker is
// checked, as it would be then anyway.
void Stages::stand_in(StandIn& other, const Stage& stage, const JobsOf& jobs_of) {
  examine_machine();
  const StandingIn scope(at_.driver, other);
  const auto part =
      static_cast<std::size_t>(at_.side_by_side) * static_cast<std::size_t>(at_.plan.spec().check_every);
  try {
    std::vector<Job> jobs = jobs_of(at_.driver);
    at_.progress.stage(fmt::format("{}, shard {}", stage.words, other.id().text()), 0, count_runs(jobs));
    while (!jobs.empty() && !other.wanted()) {
      const auto end = jobs.begin() + static_cast<std::ptrdiff_t>(std::min(part, jobs.size()));
      at_.pool.run({std::make_move_iterator(jobs.begin()), std::make_move_iterator(end)});
      jobs.erase(jobs.begin(), end);
    }
    if (jobs.empty()) at_.driver.finish(stage);
  } catch (const std::exception& error) {
    other.set_end(error.what());
    throw;
  }
}

void Stages::finish_together(const Stage& stage, const JobsOf& jobs_of) {
  at_.driver.finish(stage);
  while (const auto other = at_.driver.meet(stage)) stand_in(*other, stage, jobs_of);
}

void Stages::prepare() {
  const Plan& plan = at_.plan;
  const Stage stage = preparation_stage(plan, shard().count);
  std::vector<Job> jobs = at_.driver.preparation_jobs();
  // Otherwise a stand-in ran this part: the machine is examined once there is something to run on it.
  if (!at_.driver.has_finished(stage) || std::any_of(jobs.begin(), jobs.end(), holds_run_in_turn)) {
    const std::size_t preparations = preparation_of(shard(), plan).size();
    at_.progress.stage("controls, clean runs, canaries", count_done(jobs, preparations), preparations);
    at_.pool.run(std::move(jobs));
  }
  finish_together(stage, [](const Driver& driver) { return driver.preparation_jobs(); });

  std::vector<std::string> problems;
  try {
    problems = analyze::trust_of(at_.ledger.effective(), analyze::judging_of(plan.spec())).problems;
  } catch (const Error& error) {
    problems = {error.what()};
  }
  if (!problems.empty()) throw Misbehaviour(problems);
}

void Stages::run_round() {
  const design::CampaignSpec& spec = at_.plan.spec();
  const record::Round& round = at_.plan.rounds().back();
  std::vector<Job> jobs = at_.driver.trial_jobs();
  if (!jobs.empty()) examine_machine();
  std::size_t trials = 0;
  for (const record::Round& one : at_.plan.rounds()) trials += trials_of(shard(), one).size();
  if (!jobs.empty() || !spec.sampling) {
    at_.progress.stage(round_name(round, spec), count_done(jobs, trials), trials);
    at_.pool.run(std::move(jobs));
  }
  finish_together(round_stage(round, shard().count),
                  [](const Driver& driver) { return driver.trial_jobs(); });
}

void Stages::run_rounds() {
  const design::CampaignSpec& spec = at_.plan.spec();
  while (true) {
    const record::Round& round = at_.plan.rounds().back();
    at_.folder.publish_round(round);
    if (round.stop) {
      if (spec.sampling) {
        at_.progress.note(
            fmt::format("stopped after round {}: {}", round.number - 1, stop_text(*round.stop)));
      }
      if (at_.plan.ended()) return;
    } else {
      run_round();
    }
    analyze::Observations seen;
    if (spec.sampling) seen = analyze::observe(at_.ledger.effective(), spec);
    at_.plan.add_round(analyze::next_round(spec, at_.plan.strata(), at_.plan.rounds(), seen));
    at_.driver.show_round();
  }
}

}  // namespace bitrift::campaign
