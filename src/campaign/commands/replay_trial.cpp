#include "campaign/commands/replay_trial.h"

#include <system_error>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "campaign/commands/merge.h"
#include "campaign/driver/driver.h"
#include "campaign/folder/folder.h"
#include "campaign/folder/numeric_environment.h"
#include "campaign/journal/journal.h"
#include "campaign/plan/ends.h"
#include "campaign/plan/golden_runs.h"
#include "campaign/plan/plan.h"
#include "campaign/worker/pool.h"
#include "campaign/worker/scratch.h"
#include "campaign/worker/trace_run.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

// Keeps the one run; the journal is only read.
class ReplayObserver : public PoolObserver {
 public:
  ReplayObserver(const StoredCampaign& stored, const Plan& plan, const JournalRows& rows)
      : stored_(stored), plan_(plan), controls_(stored.spec, rows.effective()) {}

  record::TrialSpec expand(const RunKey& key) override {
    record::TrialSpec spec = plan_.expand(key);
    stored_.drills.plant(spec);
    if (spec.drill == record::Drill::leak) spec.drill.reset();  // the end concerns only later runs
    return spec;
  }
  double deadline_s(std::size_t arm) override { return controls_.deadline_s(arm); }
  bool golden_known(std::size_t arm, int order) override { return controls_.golden_known(arm, order); }
  void on_ready(std::size_t /*arm*/, const record::Ready& /*ready*/) override {}
  std::optional<std::string> on_check(std::size_t arm, int order, const record::RunResult& result) override {
    controls_.check(arm, order, result, "check of the worker");
    return std::nullopt;
  }
  void on_doubt(std::size_t /*arm*/, const std::vector<RunKey>& /*runs*/, const std::string& why) override {
    throw Misbehaviour("the run left something behind in its worker: " + why);
  }
  void on_run(const Ran& ran) override {
    row_ = row_of(ran, plan_.stratum_bits({ran.spec.kind, ran.spec.id}), stored_.drills);
  }
  void on_incident(const Incident& /*incident*/) override {}
  void on_slow_start(const std::string& text) override { spdlog::info("{}", text); }
  void on_tick() override { InterruptGuard::check(); }

  [[nodiscard]] const record::TrialRecord& row() const { return row_.value(); }

 private:
  const StoredCampaign& stored_;
  const Plan& plan_;
  Controls controls_;
  std::optional<record::TrialRecord> row_;
};

}  // namespace

Replay replay_run(const std::filesystem::path& folder, const std::string& id,
                  const std::optional<std::filesystem::path>& trace) {
  const InterruptGuard interrupts;
  const Layout layout{std::filesystem::absolute(folder)};
  const StoredCampaign stored = read_stored_campaign(layout);
  const JournalRows rows = read_journal(layout.journal());
  warn_unless_merged(layout);
  check_bases(layout, stored.base_digests);
  const Bases bases = open_bases(layout, stored.spec);
  const Plan plan(stored.spec, bases);
  const RunKey key = plan.find(trial_id_from_text(id));
  const record::TrialRecord* known = rows.find(key.id);
  if (known == nullptr) {
    fail(ErrorCode::not_found, "{}: the journal has no row of {}; let `bitrift campaign run` finish it",
         layout.journal().string(), id);
  }
  const std::string hint = environment_hint(stored.environment);
  if (trace) check_traceable(stored.spec, plan.expand(key));
  const std::string name = "replay-" + std::to_string(getpid());
  const auto copy = layout.copy(name);
  std::filesystem::create_directories(copy.parent_path());
  ReplayObserver observer(stored, plan, rows);
  const std::size_t arm = stored.spec.arm_index(key.id.arm);
  const ckpt::Reader& base = bases.at(stored.spec.arms[arm].file);
  Launch launch = launch_of(stored.spec, false, stored.drills.ignore_file);
  launch.base = base.path();
  {
    PoolOptions options;
    options.launch = launch;
    options.arms = stored.spec.arms;
    options.workers = 1;
    options.orders = stored.spec.orders;
    options.early_end = stored.spec.early_end;
    options.propagation = stored.spec.propagation;
    options.compare_loaded = stored.spec.files.front().unread.has_value();
    options.start_deadline_s = stored.spec.start_deadline();
    options.memory = stored.spec.memory;
    options.network = stored.spec.network;
    options.listen_at = listen_address();
    options.flip_nothing = stored.drills.flip_nothing;
    options.place_of = [&](int) {
      return WorkerPlace{copy, layout.log("replay"), scratch_name(layout.root, name)};
    };
    Pool pool(std::move(options), observer, bases);
    try {
      pool.run({Job{arm, {key}, 0, {}}});
      pool.retire();
    } catch (const Misbehaviour& problem) {
      throw Misbehaviour(problem.what() + hint);
    }
  }
  Replay replay{*known, observer.row(), journal_difference({*known}, {observer.row()}), "", hint};
  if (trace) {
    const TraceRequest request{launch,
                               stored.spec.arms[arm],
                               plan.expand(key),
                               copy,
                               *trace,
                               layout.log("trace"),
                               120 + 10 * observer.deadline_s(arm)};
    const auto missing = write_trace(base, request);
    replay.no_trace = missing.value_or("");
    if (!missing && known->result && !replay.difference)
      replay.difference = trace_difference(*trace, *known->result);
  }
  std::error_code ignored;
  std::filesystem::remove_all(copy.parent_path(), ignored);
  return replay;
}

}  // namespace bitrift::campaign
