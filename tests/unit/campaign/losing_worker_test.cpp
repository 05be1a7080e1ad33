// Workers whose ranks fail because they were to: who may go, who may come, and when a worker has served its
// time.
#include <fstream>

#include <gmock/gmock.h>
#include <signal.h>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "campaign/worker/pool.h"
#include "campaign/worker/scratch.h"
#include "campaign/worker/worker.h"
#include "support.h"

namespace bitrift::campaign::losing_worker_test {
namespace {

using record::FailureReason;
using record::ProcessFault;
using record::RecoveryKind;
using record::RecoverySpec;
using record::RunStatus;
using testing::fake_rank;
using testing::TemporaryFolder;

std::vector<ProcessFault> faults_of(const std::vector<int>& ranks) {
  std::vector<ProcessFault> faults;
  for (const int rank : ranks) faults.push_back({.rank = rank});
  return faults;
}

design::Arm arm_of(int ranks, RecoverySpec recovery) {
  design::Arm arm{"a", {record::ParallelKind::data, ranks, 1}};
  arm.recovery = std::move(recovery);
  return arm;
}

Launch launch_for(int failing) {
  Launch launch{fake_rank, "base.h5", "", false};
  launch.failing = failing;
  return launch;
}

// A zombie, which somebody else has to reap, does not.
bool runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto behind = text.rfind(") ");
  return behind != std::string::npos && text[behind + 2] != 'Z' && text[behind + 2] != 'X';
}

TEST(ProcessesOfAWorker, AreRanksAndWhatRecoveriesUseUp) {
  const auto all = [](RecoverySpec recovery, int failing) {
    return processes_of(arm_of(4, std::move(recovery)), failing).all();
  };
  EXPECT_EQ(all({RecoveryKind::shrink}, 1), 4 + 8);
  EXPECT_EQ(all({.kind = RecoveryKind::spare, .spares = 2}, 2), 4 + 2 + 8);
  EXPECT_EQ(all({.kind = RecoveryKind::restart, .spares = 1}, 1), 4 + 1 + 8);
  for (const RecoveryKind kind : {RecoveryKind::none, RecoveryKind::respawn, RecoveryKind::restart})
    EXPECT_EQ(all({kind}, 1), 4) << name_of(kind);
  EXPECT_EQ(all({RecoveryKind::shrink}, 12), 4 + 12);
  EXPECT_EQ(all({.kind = RecoveryKind::spare, .spares = 2}, 0), 4);  // no rank fails in this campaign
}

TEST(ProcessesOfAWorker, ATrialNeedsTheRunsOwnAndOnesForTheCheckBehindIt) {
  const auto needed = [](RecoverySpec recovery, int failing) {
    return processes_of(arm_of(4, std::move(recovery)), failing).needed_for_trial(failing);
  };
  EXPECT_EQ(needed({RecoveryKind::shrink}, 1), 5);
  EXPECT_EQ(needed({RecoveryKind::shrink}, 3), 7);
  EXPECT_EQ(needed({.kind = RecoveryKind::spare, .spares = 2}, 1), 6);
  EXPECT_EQ(needed({.kind = RecoveryKind::spare, .spares = 1}, 2), 6);
  EXPECT_EQ(needed({RecoveryKind::respawn}, 2), 4);
}

TEST(LosingLaunch, CommandSaysHowToRecoverAndIsGuarded) {
  Launch launch = launch_for(1);
  launch.guard = "/opt/bitrift";
  launch.detector = true;
  const Command command = serve_command(launch, arm_of(4, {RecoveryKind::shrink}), "name", "log", {});
  ASSERT_EQ(command.arguments.size(), 3U);
  EXPECT_EQ(command.arguments[0], "/opt/bitrift");
  EXPECT_EQ(command.arguments[1], "exec-guard");
  const auto inner = record::Json::parse(command.arguments[2]).at("command");
  const auto words = record::Json::parse(inner.at(2).get<std::string>()).at("command");
  EXPECT_EQ(words.dump(), record::Json({fake_rank.string(), "serve", "base.h5", "--connect", "name",
                                        "--parallel", "data", "--micro-batches", "1", "--ranks", "4",
                                        "--recovery", R"({"kind":"shrink"})", "--reserve", "8", "--detector"})
                              .dump());
}

// One worker, driven by hand.
class LosingWorkerTest : public ::testing::Test {
 protected:
  ~LosingWorkerTest() override { unsetenv("FAKE_RUNS"); }
  void start(int ranks, const RecoverySpec& recovery, int failing = 1, const std::string& mode = "") {
    setenv("FAKE_RUNS", record::Json{{"run", mode}}.dump().c_str(), 1);
    Listener listener;
    const design::Arm arm = arm_of(ranks, recovery);
    const Launch launch = launch_for(failing);
    const Command command = serve_command(launch, arm, listener.name(), folder_ / "log", {});
    worker_.emplace(std::move(listener), command, processes_of(arm, failing).all(), 20);
    ASSERT_TRUE(std::holds_alternative<WorkerReady>(next()));
  }
  WorkerEvent next() {
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < limit) {
      std::vector<pollfd> waiting;
      worker_->add_to(waiting);
      poll(waiting.data(), waiting.size(), 10);
      worker_->step();
      if (auto event = worker_->next_event()) return *event;
    }
    ADD_FAILURE() << "nothing happened";
    return WorkerLost{};
  }
  WorkerEvent run(const std::vector<int>& victims, double deadline = 20) {
    record::RunRequest request{"run", "copy.h5", 1, std::nullopt};
    request.faults = faults_of(victims);
    worker_->run(request, deadline);
    return next();
  }
  void expect_done(const std::vector<int>& victims) {
    const WorkerEvent event = run(victims);
    ASSERT_TRUE(std::holds_alternative<WorkerFinished>(event));
    EXPECT_EQ(std::get<WorkerFinished>(event).result.status, RunStatus::done);
    EXPECT_EQ(worker_->state(), Worker::State::ready);
  }
  // What ends the worker, whatever it answers before.
  record::Failure loss_in(const std::vector<int>& victims, double deadline = 20) {
    WorkerEvent event = run(victims, deadline);
    if (std::holds_alternative<WorkerFinished>(event)) event = next();
    EXPECT_TRUE(std::holds_alternative<WorkerLost>(event));
    EXPECT_EQ(worker_->state(), Worker::State::ended);
    return std::holds_alternative<WorkerLost>(event) ? std::get<WorkerLost>(event).failure
                                                     : record::Failure{};
  }
  void expect_end_without_loss() {
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (worker_->state() != Worker::State::ended && Clock::now() < limit) worker_->step();
    EXPECT_EQ(worker_->state(), Worker::State::ended);
    EXPECT_FALSE(worker_->next_event());
  }
  TemporaryFolder folder_;
  std::optional<Worker> worker_;
};

TEST_F(LosingWorkerTest, VictimsMayEndBeforeAndBehindTheAnswer) {
  for (const std::string mode : {"", "late"}) {
    start(2, {RecoveryKind::shrink}, 1, mode);
    for (int lost = 1; lost <= 4; ++lost) {
      expect_done({1});
      EXPECT_EQ(worker_->strength(), 10 - lost) << mode;
    }
    expect_done({});
    EXPECT_EQ(worker_->strength(), 6) << mode;
  }
}

TEST_F(LosingWorkerTest, RankZeroAndTwoAtOnceMayFail) {
  start(3, {.kind = RecoveryKind::spare, .spares = 2}, 2);
  expect_done({0, 2});
  EXPECT_EQ(worker_->strength(), 11);
  expect_done({0});
  EXPECT_EQ(worker_->strength(), 10);
}

TEST_F(LosingWorkerTest, NewcomersTakePartAndEndWithTheWorker) {
  start(3, {RecoveryKind::respawn}, 2);
  for (int i = 0; i < 4; ++i) {
    expect_done({0, 1});
    EXPECT_EQ(worker_->strength(), 3);
  }
  const std::vector<pid_t> pids = worker_->pids();
  EXPECT_EQ(pids.size(), 4U);  // the launcher and those who live
  worker_->kill();
  for (const pid_t pid : pids) EXPECT_FALSE(runs(pid)) << pid;
}

TEST_F(LosingWorkerTest, StoppedRankDoesNotComeBack) {
  start(2, {RecoveryKind::shrink});
  record::RunRequest request{"run", "copy.h5", 1, std::nullopt};
  request.faults = std::vector{record::ProcessFault{.rank = 1, .how = record::FailureMode::stop}};
  worker_->run(request, 20);
  EXPECT_TRUE(std::holds_alternative<WorkerFinished>(next()));
  EXPECT_EQ(worker_->strength(), 9);
}

TEST_F(LosingWorkerTest, OneMoreEndThanFaultsIsALoss) {
  start(3, {RecoveryKind::shrink}, 1, "extra");
  EXPECT_EQ(loss_in({0}).reason, FailureReason::signal);
}

TEST_F(LosingWorkerTest, EndInARunWithoutFaultsIsALoss) {
  start(2, {RecoveryKind::shrink});
  expect_done({1});
  const std::vector<pid_t> pids = worker_->pids();
  ASSERT_EQ(kill(pids.back(), SIGKILL), 0);
  EXPECT_EQ(loss_in({}).reason, FailureReason::signal);
}

TEST_F(LosingWorkerTest, AnswerThatNobodyCanGoOnIsTheLastAndNoLoss) {
  for (const std::string mode : {"", "last-words"}) {
    start(3, {RecoveryKind::none}, 1, mode);
    const WorkerEvent event = run({0});
    ASSERT_TRUE(std::holds_alternative<WorkerFinished>(event)) << mode;
    EXPECT_EQ(std::get<WorkerFinished>(event).result.status, RunStatus::unrecovered);
    EXPECT_EQ(worker_->state(), Worker::State::quitting);
    expect_end_without_loss();
  }
}

TEST_F(LosingWorkerTest, WorkerWithoutAnAnswerIsLost) {
  start(3, {RecoveryKind::none}, 1, "vanish");
  EXPECT_NE(loss_in({0}).reason, FailureReason::hang);
}

// Owns a campaign of trials in each of which rank 1 fails.
class Recorder : public PoolObserver {
 public:
  record::TrialSpec expand(const RunKey& key) override {
    record::TrialSpec spec;
    spec.kind = key.kind;
    spec.id = key.id;
    if (key.kind != record::TrialKind::trial) return spec;
    spec.faults = faults_of(victims);
    spec.recovery = recovery;
    return spec;
  }
  double deadline_s(std::size_t /*arm*/) override { return 20; }
  bool golden_known(std::size_t /*arm*/, int /*order*/) override { return true; }
  void on_ready(std::size_t /*arm*/, const record::Ready& /*ready*/) override { ++workers; }
  std::optional<std::string> on_check(std::size_t /*arm*/, int /*order*/,
                                      const record::RunResult& result) override {
    happened[result.detail].emplace_back("check");
    return std::nullopt;
  }
  void on_doubt(std::size_t /*arm*/, const std::vector<RunKey>& /*keys*/, const std::string& why) override {
    ADD_FAILURE() << why;
  }
  void on_run(const Ran& ran) override {
    runs.push_back(ran);
    if (ran.result) happened[ran.result->detail].push_back(ran.spec.id.text());
  }
  void on_incident(const Incident& incident) override { incidents.push_back(incident); }
  void on_slow_start(const std::string& /*text*/) override {}
  void on_tick() override { InterruptGuard::check(); }

  RecoverySpec recovery;
  std::vector<int> victims = {1};
  int workers = 0;
  std::map<std::string, std::vector<std::string>> happened;  // by pid of the rank that answered
  std::vector<Ran> runs;
  std::vector<Incident> incidents;
};

class LosingPoolTest : public ::testing::Test {
 protected:
  LosingPoolTest() {
    testing::write_base(folder_ / "base.h5");
    bases_.emplace_back(folder_ / "base.h5");
  }
  ~LosingPoolTest() override { unsetenv("FAKE_RUNS"); }
  void run(std::size_t count, const RecoverySpec& recovery, const std::string& mode = "") {
    setenv("FAKE_RUNS", record::Json{{"a/s/0", mode}}.dump().c_str(), 1);
    recorder_.recovery = recovery;
    PoolOptions options;
    options.launch = launch_for(static_cast<int>(recorder_.victims.size()));
    options.arms = {arm_of(3, recovery)};
    options.workers = 1;
    options.place_of = [this](int slot) {
      const std::string name = std::to_string(slot);
      return WorkerPlace{folder_ / ("copy" + name), folder_ / ("log" + name),
                         scratch_name(folder_ / "", name)};
    };
    Pool pool(std::move(options), recorder_, bases_);
    Job chain;
    for (std::uint64_t i = 0; i < count; ++i) chain.runs.push_back({record::TrialKind::trial, {"a", "s", i}});
    pool.run({chain});
    pool.retire();
    EXPECT_EQ(recorder_.runs.size(), count);
  }
  TemporaryFolder folder_;
  Bases bases_;
  Recorder recorder_;
};

TEST_F(LosingPoolTest, WorkerThatServedItsTimeConfirmsItsRowsAndIsReplaced) {
  run(20, {RecoveryKind::shrink});
  EXPECT_TRUE(recorder_.incidents.empty());
  EXPECT_EQ(recorder_.workers, 3);
  std::multiset<std::size_t> trials;
  for (const auto& [pid, events] : recorder_.happened) {
    EXPECT_EQ(events.front(), "check") << pid;
    EXPECT_EQ(events.back(), "check") << pid;
    EXPECT_EQ(std::count(events.begin(), events.end(), "check"), 2);
    trials.insert(events.size() - 2);
  }
  EXPECT_THAT(trials, ::testing::ElementsAre(4, 8, 8));
  for (const Ran& ran : recorder_.runs) EXPECT_EQ(ran.attempts, 1);
}

TEST_F(LosingPoolTest, EveryTrialBeginsWithAllItsSpares) {
  recorder_.victims = {1, 2};
  run(8, {.kind = RecoveryKind::spare, .spares = 2});
  EXPECT_TRUE(recorder_.incidents.empty());
  EXPECT_EQ(recorder_.workers, 2);  // of 13 processes a fifth trial leaves 3, which serve for the check
  for (const Ran& ran : recorder_.runs) EXPECT_EQ(ran.result->status, RunStatus::done);
}

TEST_F(LosingPoolTest, WorkerThatIsRefilledStays) {
  run(12, {RecoveryKind::respawn});
  EXPECT_TRUE(recorder_.incidents.empty());
  EXPECT_EQ(recorder_.workers, 1);
}

TEST_F(LosingPoolTest, TrialThatNobodyContinuesIsARowAndTakesAFreshWorker) {
  run(3, {RecoveryKind::none});
  EXPECT_TRUE(recorder_.incidents.empty());
  EXPECT_EQ(recorder_.workers, 3);
  for (const Ran& ran : recorder_.runs) {
    EXPECT_EQ(ran.result->status, RunStatus::unrecovered);
    EXPECT_EQ(ran.attempts, 1);
  }
}

TEST_F(LosingPoolTest, WorkerThatVanishesIsAnIncidentAndTwiceTheOutcome) {
  run(2, {RecoveryKind::shrink}, "vanish");
  EXPECT_EQ(recorder_.incidents.size(), 2U);
  EXPECT_EQ(recorder_.runs.front().spec.id.text(), "a/s/0");
  EXPECT_TRUE(recorder_.runs.front().failure);
  EXPECT_EQ(recorder_.runs.front().attempts, 2);
  EXPECT_EQ(recorder_.runs.back().result->status, RunStatus::done);
}

}  // namespace
}  // namespace bitrift::campaign::losing_worker_test
