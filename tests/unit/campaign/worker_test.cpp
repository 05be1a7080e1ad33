#include "campaign/worker/worker.h"

#include <fstream>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "campaign/worker/pool.h"
#include "campaign/worker/scratch.h"
#include "core/error.h"
#include "core/file.h"
#include "support.h"
#include "tests_support.h"
#include "wire/meeting_point.h"

namespace bitrift::campaign::worker_test {
namespace {

using record::Failure;
using record::FailureReason;
using ::testing::ElementsAre;
using testing::fake_rank;
using ::testing::HasSubstr;
using testing::signal_of;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

TEST(BestAccount, ReportedSignalBeatsEverythingThatCameBefore) {
  EXPECT_EQ(best_account({{FailureReason::exception, "peer lost", 0}, signal_of(SIGSEGV)}, std::nullopt),
            signal_of(SIGSEGV));
  EXPECT_EQ(best_account({signal_of(0), signal_of(SIGABRT)}, ExitStatus{1, 0}), signal_of(SIGABRT));
}

TEST(BestAccount, ExceptionThatCameFirstBeatsTheExitCode) {
  EXPECT_EQ(best_account({{FailureReason::exception, "bad", 0}, signal_of(0)}, ExitStatus{3, 0}),
            (Failure{FailureReason::exception, "bad", 0}));
}

TEST(BestAccount, ExceptionBehindASilentEndIsItsEcho) {
  EXPECT_EQ(best_account({signal_of(0), {FailureReason::exception, "peer lost", 0}}, ExitStatus{137, 0}),
            signal_of(SIGKILL));
}

TEST(BestAccount, TerminationByTheLauncherIsNoCause) {
  EXPECT_EQ(best_account({signal_of(SIGTERM)}, ExitStatus{139, 0}), signal_of(SIGSEGV));
}

TEST(BestAccount, SilentEndTakesTheProcessesWord) {
  EXPECT_EQ(best_account({signal_of(0)}, ExitStatus{0, SIGKILL}), signal_of(SIGKILL));
  EXPECT_EQ(best_account({}, ExitStatus{134, 0}), signal_of(SIGABRT));
  EXPECT_THAT(best_account({signal_of(0)}, ExitStatus{7, 0}).detail, HasSubstr("exit code 7"));
  EXPECT_EQ(best_account({signal_of(0)}, ExitStatus{7, 0}).reason, FailureReason::exception);
  EXPECT_EQ(best_account({signal_of(0)}, std::nullopt), signal_of(0));
}

// One worker of fake ranks, driven by hand.
class WorkerTest : public ::testing::Test {
 protected:
  void start(int ranks, const std::string& behaviour = "", double deadline = 20) {
    Listener listener = network_ ? Listener(folder_ / "meeting-point", "127.0.0.1") : Listener();
    const Launch launch{fake_rank, "base.h5", "", false};
    Command command = serve_command(launch, {"a", {record::ParallelKind::data, ranks, 1}}, listener.name(),
                                    folder_ / "log", {});
    command.environment["FAKE_RANK"] = behaviour;
    worker_.emplace(std::move(listener), command, ranks, deadline);
  }
  WorkerEvent next(double seconds = 20) {
    const auto limit = Clock::now() + std::chrono::duration<double>(seconds);
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
  // behaviour: of the ranks in the run.
  Failure failure_of(const std::string& behaviour, double deadline = 20) {
    EXPECT_TRUE(std::holds_alternative<WorkerReady>(next()));
    return failure_of_running(behaviour, deadline);
  }
  Failure failure_of_running(const std::string& behaviour, double deadline = 20) {
    worker_->run({behaviour, "copy.h5", 1, std::nullopt}, deadline);
    const WorkerEvent event = next();
    if (!std::holds_alternative<WorkerLost>(event)) return {FailureReason::exception, "not lost", 0};
    EXPECT_EQ(worker_->state(), Worker::State::ended);
    return std::get<WorkerLost>(event).failure;
  }
  TemporaryFolder folder_;
  std::optional<Worker> worker_;
  bool network_ = false;
};

TEST_F(WorkerTest, AnswersRunAfterRun) {
  start(2);
  ASSERT_TRUE(std::holds_alternative<WorkerReady>(next()));
  for (const std::string id : {"a/s/0", "a/s/1", "a/s/2"}) {
    worker_->run({id, "copy.h5", 1, std::nullopt}, 20);
    const WorkerEvent event = next();
    ASSERT_TRUE(std::holds_alternative<WorkerFinished>(event));
    EXPECT_EQ(std::get<WorkerFinished>(event).result.id, id);
  }
  worker_->quit();
  while (worker_->state() != Worker::State::ended) worker_->step();
  EXPECT_FALSE(worker_->next_event());
}

TEST_F(WorkerTest, ARequestLongerThanASocketHoldsReachesEveryRank) {
  start(2);
  ASSERT_TRUE(std::holds_alternative<WorkerReady>(next()));
  record::RunRequest request{"a/s/0", "copy.h5", 1, std::nullopt, std::nullopt};
  request.altered = std::vector<std::string>(20000, std::string(50, 't'));
  worker_->run(request, 5);
  EXPECT_TRUE(std::holds_alternative<WorkerFinished>(next()));
}

TEST_F(WorkerTest, RanksOverTheNetworkAnswerAndDieLikeThoseBeside) {
  network_ = true;
  start(2);
  ASSERT_TRUE(std::holds_alternative<WorkerReady>(next()));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "meeting-point"));
  EXPECT_EQ(std::filesystem::status(folder_ / "meeting-point").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  worker_->run({"a/s/0", "copy.h5", 1, std::nullopt}, 20);
  ASSERT_TRUE(std::holds_alternative<WorkerFinished>(next()));
  EXPECT_EQ(worker_->pids().size(), 1U);  // the launcher alone: a rank's number is another machine's
  EXPECT_EQ(failure_of_running("abort"), signal_of(SIGABRT));
  worker_.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "meeting-point"));
}

TEST_F(WorkerTest, RanksOverTheNetworkEndWhenTheirDriverHangsUp) {
  network_ = true;
  start(2);
  const WorkerEvent event = next();
  ASSERT_TRUE(std::holds_alternative<WorkerReady>(event));
  // Only what a driver elsewhere could do: no signal reaches the ranks.
  const auto start_of_end = Clock::now();
  worker_->kill();
  EXPECT_LT(Clock::now() - start_of_end, std::chrono::seconds(2));
}

// What arrives at an open port from anybody.
TEST(NetworkListener, StrangersAreNeverSeen) {
  const TemporaryFolder folder;
  Listener listener(folder / "meeting-point", "127.0.0.1");
  MeetingPoint point = read_meeting_point(listener.name());
  EXPECT_THAT(point.addresses, ::testing::ElementsAre("127.0.0.1"));
  const std::string token = point.token;
  point.token = std::string(token_characters, '0');
  write_meeting_point(folder / "wrong", point);
  const FileDescriptor wrong = connect_to_driver((folder / "wrong").string());
  point.token = token;
  write_meeting_point(folder / "right", point);
  const FileDescriptor right = connect_to_driver((folder / "right").string());
  std::vector<Connection> found;
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (found.empty() && Clock::now() < limit) found = listener.accept();
  ASSERT_EQ(found.size(), 1U);
  const std::string hello = "hello\n";
  ASSERT_EQ(send(right.get(), hello.data(), hello.size(), 0), 6);
  EXPECT_EQ(found[0].wait_for_line(), "hello");
  char byte = 0;
  EXPECT_LE(recv(wrong.get(), &byte, 1, 0), 0);  // hung up on
  EXPECT_TRUE(listener.accept().empty());
}

TEST(NetworkListener, AnAddressOfAnotherMachineIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(Listener(folder / "m", "192.0.2.1"), Error);
  EXPECT_THROW(Listener(folder / "m", "no such name"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "m"));
}

TEST(MeetingPoint, DamageAndSilenceAreNamed) {
  const TemporaryFolder folder;
  const auto file = (folder / "m").string();
  EXPECT_THAT([&] { (void)connect_to_driver(file); }, ThrowsMessage<Error>(HasSubstr(file)));
  std::ofstream(file) << ("bitrift meeting point 1\n127.0.0.1\n99999\nabc\n");
  EXPECT_THAT([&] { (void)connect_to_driver(file); },
              ThrowsMessage<Error>(HasSubstr("does not say where a driver listens")));
  write_meeting_point(file, {{"127.0.0.1"}, 1, std::string(token_characters, 'a')});
  EXPECT_THAT([&] { (void)connect_to_driver(file); },
              ThrowsMessage<Error>(HasSubstr("no driver can be reached")));
}

TEST_F(WorkerTest, ReportedSignalIsTheFailureOfOneRankAndOfTwo) {
  for (const int ranks : {1, 2}) {
    start(ranks);
    EXPECT_EQ(failure_of("abort"), signal_of(SIGABRT)) << ranks;
  }
}

TEST_F(WorkerTest, SilentDeathOfARankIsReadFromTheExitStatus) {
  for (const int ranks : {1, 2}) {
    start(ranks);
    EXPECT_EQ(failure_of("kill"), signal_of(SIGKILL)) << ranks;
  }
}

TEST_F(WorkerTest, ExceptionCarriesItsText) {
  start(2);
  EXPECT_EQ(failure_of("raise"), (Failure{FailureReason::exception, "out of cheese", 0}));
}

TEST_F(WorkerTest, QuietExitIsAnExceptionWithTheCode) {
  start(1);
  EXPECT_EQ(failure_of("exit7"),
            (Failure{FailureReason::exception, "the worker ended by itself with exit code 7", 0}));
}

TEST_F(WorkerTest, HangEndsAtTheDeadlineWithEveryRankKilled) {
  start(2);
  const auto began = Clock::now();
  EXPECT_EQ(failure_of("hang", 0.5), (Failure{FailureReason::hang, "", 0}));
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(10));
}

TEST_F(WorkerTest, MessageThatIsNoneIsAFailureNotAnError) {
  start(1);
  EXPECT_THAT(failure_of("garbage").detail, HasSubstr("worker protocol"));
}

TEST_F(WorkerTest, WorkerThatNeverConnectsHangs) {
  start(1, "mute", 0.5);
  const WorkerEvent event = next();
  ASSERT_TRUE(std::holds_alternative<WorkerLost>(event));
  EXPECT_EQ(std::get<WorkerLost>(event).failure.reason, FailureReason::hang);
}

TEST_F(WorkerTest, WorkerOfAnotherNumberOfRanksIsRefused) {
  start(1, "miscount");
  EXPECT_THAT(std::get<WorkerLost>(next()).failure.detail, HasSubstr("one of 2, expected 1"));
}

TEST_F(WorkerTest, WorkerThatIgnoresTheGoodbyeIsKilled) {
  start(1, "stubborn");
  ASSERT_TRUE(std::holds_alternative<WorkerReady>(next()));
  const pid_t pid = worker_->pid();
  worker_->quit();
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (worker_->state() != Worker::State::ended && Clock::now() < limit) worker_->step();
  EXPECT_EQ(worker_->state(), Worker::State::ended);
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Launch, TemplateIsFilledInWordByWord) {
  const Launch launch{"/opt/bitrift-train", "b.h5", "srun --ntasks={ranks} {command}", true};
  const Command command = serve_command(launch,
                                        {"a",
                                         {.kind = record::ParallelKind::pipeline,
                                          .ranks = 2,
                                          .micro_batches = 4,
                                          .stages = 2,
                                          .schedule = record::PipelineSchedule::one_forward_one_backward}},
                                        "name", "log", "/dev/shm/x");
  EXPECT_THAT(command.arguments,
              ElementsAre("srun", "--ntasks=2", "/opt/bitrift-train", "serve", "b.h5", "--connect", "name",
                          "--parallel", "pipeline", "--micro-batches", "4", "--ranks", "2", "--schedule",
                          "1f1b", "--drill", "ignore-file"));
}

TEST(Launch, LaunchersTemporaryFilesGoToTheScratchFolder) {
  const Launch launch{"t", "b.h5", "", false};
  const Command command =
      serve_command(launch, {"a", {record::ParallelKind::data, 2, 1}}, "name", "log", "/dev/shm/x");
  EXPECT_EQ(command.environment.at("TMPDIR"), "/dev/shm/x");
  EXPECT_FALSE(serve_command(launch, {"a", {record::ParallelKind::data, 2, 1}}, "name", "log", {})
                   .environment.contains("TMPDIR"));
}

TEST(Scratch, IsEmptyAtFirstPrivateAndGoneAtTheEnd) {
  const TemporaryFolder folder;
  const std::string name = scratch_name(folder / "", "0");
  EXPECT_NE(name, scratch_name(folder / "", "1"));
  std::filesystem::path path;
  {
    path = Scratch(name).path();
    std::filesystem::create_directory(path);
    std::ofstream(path / "segment") << "left behind by a killed driver";
    const Scratch next(name);
    EXPECT_EQ(next.path(), path);
    EXPECT_TRUE(std::filesystem::is_empty(path));
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Scratch, WhatKilledDriversLeftGoesButOtherCampaignsAndReplaysStay) {
  const TemporaryFolder folder;
  const Scratch other(scratch_name(folder / "b", "0"));
  const Scratch replay(scratch_name(folder / "a", "replay-7"));
  const Scratch left(scratch_name(folder / "a", "11"));
  std::ofstream(left.path() / "segment") << "x";
  remove_scratch_of(folder / "a");
  EXPECT_FALSE(std::filesystem::exists(left.path()));
  EXPECT_TRUE(std::filesystem::exists(other.path()));
  EXPECT_TRUE(std::filesystem::exists(replay.path()));
}

TEST(Launch, LogTailIsOneLineOfTheLastLines) {
  const TemporaryFolder folder;
  std::ofstream(folder / "log") << "1\n2\n\n3\n4\n5\n6\n";
  EXPECT_EQ(log_tail(folder / "log"), "2 | 3 | 4 | 5 | 6");
  EXPECT_EQ(log_tail(folder / "none"), "");
}

}  // namespace
}  // namespace bitrift::campaign::worker_test
