#include "campaign/worker/pool.h"

#include <thread>

#include <gmock/gmock.h>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "campaign/worker/scratch.h"
#include "record/stratum_name.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::pool_test {
namespace {

using record::Failure;
using record::FailureReason;
using testing::fake_rank;
using ::testing::HasSubstr;
using testing::signal_of;
using testing::TemporaryFolder;

// A campaign's owner that only writes down.
class Recorder : public PoolObserver {
 public:
  record::TrialSpec expand(const RunKey& key) override {
    record::TrialSpec spec;
    spec.kind = key.kind;
    spec.id = key.id;
    spec.order = order_of(key, orders);
    if (spec.order > 0) spec.order_seed = 1000 + static_cast<std::uint64_t>(spec.order);
    const auto drill = drills.find(key.id.text());
    if (drill != drills.end()) spec.drill = drill->second;
    return spec;
  }
  double deadline_s(std::size_t /*arm*/) override { return deadline; }
  bool golden_known(std::size_t /*arm*/, int /*order*/) override { return true; }
  void on_ready(std::size_t /*arm*/, const record::Ready& ready) override {
    EXPECT_EQ(ready.base_digest, "b");
  }
  std::optional<std::string> on_check(std::size_t arm, int order, const record::RunResult& result) override {
    EXPECT_EQ(arm, 0U);
    EXPECT_EQ(result.id, "a/" + record::control_stratum(order) + "/0");
    happened[result.detail].push_back("check " + std::to_string(order));
    checks.push_back(result.detail);
    if (std::find(bad_checks.begin(), bad_checks.end(), checks.size()) == bad_checks.end())
      return std::nullopt;
    return "differs";
  }
  void on_doubt(std::size_t arm, const std::vector<RunKey>& keys, const std::string& why) override {
    EXPECT_EQ(arm, 0U);
    EXPECT_EQ(why, "differs");
    for (const RunKey& key : keys) doubted.push_back(key.id.text());
    std::erase_if(runs, [&](const Ran& ran) {
      return std::any_of(keys.begin(), keys.end(), [&](const RunKey& key) { return key.id == ran.spec.id; });
    });
  }
  void on_run(const Ran& ran) override {
    runs.push_back(ran);
    if (ran.result) happened[ran.result->detail].push_back(ran.spec.id.text());
  }
  void on_incident(const Incident& incident) override { incidents.push_back(incident); }
  void on_slow_start(const std::string& /*text*/) override {}
  void on_tick() override {
    InterruptGuard::check();
    std::this_thread::sleep_for(tick);
  }

  std::chrono::milliseconds tick{0};              // a driver that is this slow finds much at once
  std::map<std::string, record::Drill> drills;    // by run
  std::map<std::string, std::string> behaviours;  // of ranks, by run: see fake_rank.py
  double deadline = 20;
  std::vector<std::size_t> bad_checks;  // by number, from 1
  std::vector<std::string> doubted;
  std::vector<std::string> checks;                           // pid of each worker, by its no-flip run
  std::map<std::string, std::vector<std::string>> happened;  // by pid: "check ORDER" and ids of runs
  int orders = 1;
  std::vector<Ran> runs;
  std::vector<Incident> incidents;
};

class PoolTest : public ::testing::Test {
 protected:
  PoolTest() {
    testing::write_base(folder_ / "base.h5");
    bases_.emplace_back(folder_ / "base.h5");
  }
  ~PoolTest() override { unsetenv("FAKE_RUNS"); }
  [[nodiscard]] std::function<WorkerPlace(int)> places() const {
    return [this](int slot) {
      const std::string name = std::to_string(slot);
      return WorkerPlace{folder_ / ("copy" + name), folder_ / ("log" + name),
                         scratch_name(folder_ / "", name)};
    };
  }
  // chained: all runs as one job, so that each follows at once upon the answer before.
  void run(std::size_t count, int ranks = 1, int workers = 1, bool chained = false) {
    PoolOptions options;
    options.launch = {fake_rank, folder_ / "base.h5", "", false};
    options.arms = {{"a", {ranks > 1 ? record::ParallelKind::data : record::ParallelKind::serial, ranks, 1}}};
    options.workers = workers;
    options.check_every = check_every_;
    options.orders = recorder_.orders;
    options.memory = memory_;
    options.place_of = places();
    setenv("FAKE_RUNS", record::Json(recorder_.behaviours).dump().c_str(), 1);
    Pool pool(std::move(options), recorder_, bases_);
    std::vector<Job> jobs;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i == 0 || !chained) jobs.emplace_back();
      jobs.back().runs.push_back({kind_, {"a", "s", i}});
    }
    pool.run(std::move(jobs));
    pool.retire();
  }
  [[nodiscard]] std::map<std::string, std::string> outcomes() const {
    std::map<std::string, std::string> result;
    for (const Ran& ran : recorder_.runs) {
      EXPECT_TRUE(result
                      .emplace(ran.spec.id.text(),
                               ran.failure ? name_of(ran.failure->reason) : name_of(ran.result->status))
                      .second);
    }
    return result;
  }
  TemporaryFolder folder_;
  Bases bases_;
  Recorder recorder_;
  int check_every_ = 100;
  record::TrialKind kind_ = record::TrialKind::trial;
  std::optional<std::uint64_t> memory_;
};

TEST_F(PoolTest, EveryWorkerIsCheckedFirstAndLastAndEveryRunEndsOnce) {
  run(20, 1, 2);
  EXPECT_EQ(outcomes().size(), 20U);
  std::map<std::string, int> checks;
  for (const std::string& pid : recorder_.checks) ++checks[pid];
  EXPECT_GE(checks.size(), 1U);
  EXPECT_LE(checks.size(), 2U);
  for (const auto& [pid, count] : checks) EXPECT_EQ(count, 2) << pid;
  EXPECT_TRUE(recorder_.incidents.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "copy0"));
}

TEST_F(PoolTest, WorkerIsCheckedAgainAfterSoManyTrialsAndBehindTheLast) {
  check_every_ = 4;
  run(10);
  EXPECT_EQ(recorder_.checks.size(), 4U);  // before the first, the fifth and the ninth, and at the end
  EXPECT_TRUE(recorder_.doubted.empty());
}

TEST_F(PoolTest, TrialsBetweenAGoodAndABadCheckRunAgainInAFreshWorker) {
  check_every_ = 4;
  for (const std::size_t bad : {2U, 3U, 4U}) {
    recorder_ = {};
    recorder_.bad_checks = {bad};
    run(10);
    EXPECT_EQ(outcomes().size(), 10U);
    const std::vector<std::string> last = {"a/s/8", "a/s/9"};
    EXPECT_EQ(recorder_.doubted.size(), bad == 4 ? 2U : 4U);
    if (bad == 4) {
      EXPECT_EQ(recorder_.doubted, last);
    }
    EXPECT_NE(recorder_.checks[bad - 1], recorder_.checks[bad]);
  }
}

TEST_F(PoolTest, BadCheckOfAFreshWorkerOrTooManyOfThemEndTheCampaign) {
  recorder_.bad_checks = {1};
  EXPECT_THROW(run(3), Misbehaviour);
  EXPECT_TRUE(recorder_.runs.empty());
  recorder_ = {};
  recorder_.bad_checks = {2, 4, 6, 8};
  EXPECT_THROW(run(3), Misbehaviour);
  EXPECT_EQ(recorder_.doubted.size(), 9U);
}

TEST_F(PoolTest, WorkerHasTheGoldenRunOfAnOrderBeforeItsFirstTrialThere) {
  recorder_.orders = 3;
  run(7);
  ASSERT_EQ(recorder_.happened.size(), 1U);
  EXPECT_THAT(recorder_.happened.begin()->second,
              ::testing::ElementsAre("check 0", "a/s/0", "check 1", "a/s/1", "check 2", "a/s/2", "a/s/3",
                                     "a/s/4", "a/s/5", "a/s/6", "check 0", "check 2", "check 1"));
  recorder_ = {};
  recorder_.orders = 3;
  run(30, 1, 3);
  EXPECT_EQ(outcomes().size(), 30U);
  for (const auto& [pid, events] : recorder_.happened) {
    std::set<std::string> checked;
    for (const std::string& event : events) {
      if (event.starts_with("check ")) {
        checked.insert(event);
      } else {
        const auto draw = std::stoi(event.substr(event.rfind('/') + 1));
        EXPECT_TRUE(checked.contains("check " + std::to_string(draw % 3))) << pid << " " << event;
      }
    }
  }
}

TEST_F(PoolTest, EachOrderIsCheckedAgainAfterSoManyTrialsInItAndBehindItsLast) {
  recorder_.orders = 2;
  check_every_ = 2;
  run(8);
  EXPECT_THAT(recorder_.happened.begin()->second,
              ::testing::ElementsAre("check 0", "a/s/0", "check 1", "a/s/1", "a/s/2", "a/s/3", "check 0",
                                     "a/s/4", "check 1", "a/s/5", "a/s/6", "a/s/7", "check 1", "check 0"));
}

TEST_F(PoolTest, WorkerThatDriftsInOneOrderOnlyIsFoundAndItsTrialsRunAgain) {
  recorder_.orders = 2;
  check_every_ = 2;
  recorder_.bad_checks = {4};  // that of order 1 before a/s/5
  run(8);
  EXPECT_THAT(recorder_.doubted, ::testing::ElementsAre("a/s/1", "a/s/3", "a/s/4"));
  EXPECT_EQ(outcomes().size(), 8U);
  EXPECT_EQ(recorder_.happened.size(), 2U);
  recorder_ = {};
  recorder_.orders = 2;
  recorder_.bad_checks = {4};  // the last of all, of order 1; order 0 was found good
  run(3);
  EXPECT_THAT(recorder_.doubted, ::testing::ElementsAre("a/s/1"));
  EXPECT_EQ(outcomes().size(), 3U);
  recorder_ = {};
  recorder_.orders = 2;
  recorder_.bad_checks = {1};  // of a fresh worker
  EXPECT_THROW(run(2), Misbehaviour);
}

TEST_F(PoolTest, GoldenRunOfTheCampaignItselfCountsAsTheCheckOfItsOrder) {
  recorder_.orders = 2;
  PoolOptions options;
  options.launch = {fake_rank, folder_ / "base.h5", "", false};
  options.arms = {{"a", {}}};
  options.workers = 1;
  options.orders = 2;
  options.place_of = places();
  Pool pool(std::move(options), recorder_, bases_);
  using record::TrialKind;
  pool.run(
      {{0, {{TrialKind::control, {"a", "control:order-1", 0}}, {TrialKind::trial, {"a", "s", 1}}}, 0, {}}});
  EXPECT_THAT(recorder_.happened.begin()->second,
              ::testing::ElementsAre("check 1", "a/control:order-1/0", "a/s/1", "check 1"));
}

TEST_F(PoolTest, JitterRunsNeedNoGoldenRunOfTheirOrderButAreConfirmedLikeTrials) {
  recorder_.orders = 2;
  kind_ = record::TrialKind::jitter;
  run(3);
  EXPECT_THAT(recorder_.happened.begin()->second,
              ::testing::ElementsAre("check 0", "a/s/0", "a/s/1", "a/s/2", "check 0", "check 1"));
}

TEST_F(PoolTest, SameFailureTwiceIsTheOutcomeAndComesBehindAllOthers) {
  recorder_.drills["a/s/1"] = record::Drill::abort;
  run(4);
  EXPECT_EQ(recorder_.runs.back().spec.id.text(), "a/s/1");
  EXPECT_EQ(recorder_.runs.back().failure, signal_of(SIGABRT));
  EXPECT_EQ(recorder_.runs.back().attempts, 2);
  EXPECT_EQ(recorder_.incidents.size(), 2U);
  // The first worker; its successor, twice; the fresh one.
  EXPECT_EQ(recorder_.checks.size(), 4U);
  EXPECT_EQ(outcomes().size(), 4U);
}

TEST_F(PoolTest, FailureThatDoesNotComeAgainCostsAnIncidentOnly) {
  for (const int ranks : {1, 2}) {
    recorder_ = {};
    recorder_.behaviours["a/s/0"] = "first:" + (folder_ / ("x" + std::to_string(ranks))).string() + ":kill:";
    run(3, ranks);
    EXPECT_EQ(outcomes()["a/s/0"], "done");
    ASSERT_EQ(recorder_.incidents.size(), 1U);
    EXPECT_EQ(recorder_.incidents[0].id, "a/s/0");
    EXPECT_EQ(recorder_.incidents[0].phase, Phase::run);
    EXPECT_EQ(recorder_.incidents[0].failure, signal_of(SIGKILL));
    EXPECT_EQ(recorder_.runs.back().attempts, 2);
  }
}

TEST_F(PoolTest, WorkerThatDiesRightBehindItsAnswerCostsNoRun) {
  recorder_.tick = std::chrono::milliseconds(100);
  recorder_.behaviours["a/s/0"] = recorder_.behaviours["a/s/2"] = "answer-and-die";
  run(4, 1, 1, true);
  EXPECT_EQ(outcomes().size(), 4U);
  for (const Ran& ran : recorder_.runs) {
    EXPECT_TRUE(ran.result) << ran.spec.id.text();
    EXPECT_EQ(ran.attempts, 1);
  }
  ASSERT_EQ(recorder_.incidents.size(), 2U);
  for (const Incident& incident : recorder_.incidents) EXPECT_EQ(incident.phase, Phase::idle);
}

TEST_F(PoolTest, TextOfAFailureDoesNotNameThePrivateCopy) {
  recorder_.behaviours["a/s/0"] = "raise-at";
  run(1);
  ASSERT_EQ(recorder_.runs.size(), 1U);
  EXPECT_EQ(recorder_.runs[0].failure,
            (Failure{FailureReason::exception, "out of cheese at the altered copy", 0}));
}

TEST_F(PoolTest, WorkerThatTakesTooMuchMemoryDiesAndTwiceIsTheOutcome) {
  memory_ = std::uint64_t{150} << 20U;
  const Failure failure{FailureReason::exception,
                        "its worker took more memory than worker.memory allows (157286400 bytes)", 0};
  for (const int ranks : {1, 2}) {
    recorder_ = {};
    recorder_.behaviours["a/s/0"] = "eat";
    run(2, ranks);
    EXPECT_EQ(outcomes(), (std::map<std::string, std::string>{{"a/s/0", "exception"}, {"a/s/1", "done"}}));
    EXPECT_EQ(recorder_.runs.back().failure, failure);
    EXPECT_EQ(recorder_.incidents.size(), 2U);
  }
  recorder_ = {};
  recorder_.behaviours["a/s/0"] = "first:" + (folder_ / "x").string() + ":eat:";
  run(1);
  EXPECT_EQ(outcomes()["a/s/0"], "done");
  ASSERT_EQ(recorder_.incidents.size(), 1U);
  EXPECT_EQ(recorder_.incidents[0].failure, failure);
}

TEST_F(PoolTest, LogOfAWorkerIsCutWhileItRuns) {
  recorder_.behaviours["a/s/0"] = "chatter";
  run(1);
  EXPECT_EQ(outcomes()["a/s/0"], "done");
  EXPECT_LT(std::filesystem::file_size(folder_ / "log0"), std::uint64_t{8} << 20U);
}

TEST_F(PoolTest, HangIsRunAgainWithThreeTimesTheDeadline) {
  recorder_.deadline = 0.6;
  recorder_.drills["a/s/0"] = record::Drill::hang;
  const auto began = Clock::now();
  run(2);
  EXPECT_EQ(outcomes()["a/s/0"], "hang");
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(600 + 1800));
}

TEST_F(PoolTest, DifferentFailuresAreRepeatedUntilOneHasComeTwice) {
  recorder_.behaviours["a/s/0"] = "first:" + (folder_ / "x").string() + ":kill:abort";
  run(1);
  ASSERT_EQ(recorder_.runs.size(), 1U);
  EXPECT_EQ(recorder_.runs[0].failure, signal_of(SIGABRT));
  EXPECT_EQ(recorder_.runs[0].attempts, 3);
}

TEST_F(PoolTest, WorkersThatCannotStartEndTheCampaignWithTheirLog) {
  setenv("FAKE_RANK", "refuse", 1);
  const std::string text = tests::error_of([&] { run(1); });
  unsetenv("FAKE_RANK");
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("arm 'a'"), HasSubstr("no such data set: digitz")));
  EXPECT_EQ(recorder_.incidents.size(), 2U);
  EXPECT_EQ(recorder_.incidents[0].phase, Phase::start);
}

}  // namespace
}  // namespace bitrift::campaign::pool_test
