// Processes that are killed at a call that alters files.
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "study/kill/kill_part.h"
#include "study/kill/kill_summary.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using bitrift::testing::bytes_of;
using bitrift::testing::Scratch;
using bitrift::testing::write_bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A child that stops itself, and then works.
pid_t stopped(const std::function<void()>& work) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::raise(SIGSTOP);
  work();
  ::_exit(7);
}

TracedSave traced(const Scratch& scratch, const std::function<void()>& work,
                  std::optional<KillPoint> point = std::nullopt) {
  return trace_save(stopped(work), std::filesystem::canonical(scratch.path()), point);
}

std::vector<std::string> names(const TracedSave& save) {
  std::vector<std::string> found;
  for (const AlteringCall& call : save.calls)
    found.push_back(call.bytes == 0 ? call.name : call.name + " " + std::to_string(call.bytes));
  return found;
}

// A new file under another name, with two writes, that replaces c.
void replace(const std::filesystem::path& folder) {
  const int file = ::open((folder / "new").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  (void)!::write(file, "12345678", 8);
  (void)!::pwrite(file, "9", 1, 8);
  ::fsync(file);
  ::close(file);
  ::rename((folder / "new").c_str(), (folder / "c").c_str());
}

// A thread writes a line to the file `order`, the first thread another before it signals that it is done.
TracedSave raced(const Scratch& scratch, std::size_t call, std::chrono::milliseconds most, bool signals) {
  const pid_t pid = stopped([&] {
    const int file = ::open((scratch / "order").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    std::thread writer([&] {
      (void)!::write(file, "thread 1\n", 9);
      (void)!::write(file, "thread 2\n", 9);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    (void)!::write(file, "first\n", 6);
    if (signals) ::pthread_kill(::pthread_self(), SIGUSR2);
    writer.join();
  });
  return trace_race(pid, std::filesystem::canonical(scratch.path()), call, most);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TracedRace, HoldsOtherThreadsUntilTheFirstOneIsDone) {
  const Scratch scratch;
  const TracedSave save = raced(scratch, 0, std::chrono::seconds(30), true);
  EXPECT_EQ(text_of(scratch / "order"), "first\nthread 1\nthread 2\n");
  EXPECT_EQ(save.status.code, 7);  // the signal was not delivered
  EXPECT_FALSE(save.waited);
  std::vector<bool> aside;
  for (const AlteringCall& call : save.calls) aside.push_back(call.aside);
  EXPECT_EQ(aside, (std::vector<bool>{false, true, false, true}));
}

TEST(TracedRace, LetsCallsBeforeTheNumberHappen) {
  const Scratch scratch;
  const TracedSave save = raced(scratch, 2, std::chrono::seconds(30), true);
  EXPECT_EQ(text_of(scratch / "order"), "thread 1\nfirst\nthread 2\n");
  EXPECT_EQ(save.status.code, 7);
}

TEST(TracedRace, LetsThemGoAfterAWhile) {
  const Scratch scratch;
  const TracedSave save = raced(scratch, 0, std::chrono::milliseconds(50), false);
  EXPECT_EQ(text_of(scratch / "order"), "first\nthread 1\nthread 2\n");
  EXPECT_TRUE(save.waited);
  EXPECT_EQ(save.status.code, 7);
}

TEST(TracedRace, TheSignalIsNotDeliveredAfterThatEither) {
  const Scratch scratch;
  const TracedSave save = raced(scratch, 0, std::chrono::milliseconds(1), true);
  EXPECT_TRUE(save.waited);
  EXPECT_EQ(save.status.code, 7);
  EXPECT_EQ(save.status.signal, 0);
}

TEST(TracedSave, SeesEveryCallThatAltersTheFolderAndNoOther) {
  const Scratch scratch, elsewhere;
  const TracedSave save = traced(scratch, [&] {
    replace(scratch.path());
    replace(elsewhere.path());
    static_cast<void>(::open((scratch / "c").c_str(), O_RDONLY));
    const int folder = ::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY);
    const int file = ::openat(folder, "relative", O_RDWR | O_CREAT, 0600);
    (void)!::ftruncate(file, 4096);
    (void)::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    (void)::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    (void)::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)!::chdir(scratch.path().c_str());
    ::mkdirat(AT_FDCWD, "below", 0700);
    ::unlinkat(folder, "relative", 0);
    ::mkdirat(AT_FDCWD, (elsewhere / "below").c_str(), 0700);
    (void)!::write(STDERR_FILENO, "", 0);
  });
  EXPECT_EQ(save.status.code, 7);
  auto found = names(save);
  for (std::string& name : found) {
    if (name == "open") name = "openat";  // as the C library has it
    if (name == "renameat" || name == "renameat2") name = "rename";
  }
  EXPECT_THAT(found, ElementsAre("openat", "write 8", "pwrite64 1", "rename", "openat", "ftruncate", "mmap",
                                 "mkdirat", "unlinkat"));
}

TEST(TracedSave, KillsBeforeACallOrInTheMiddleOfIt) {
  const std::vector<std::pair<std::string, std::string>> left = {// c, new; "-": no such file
                                                                 {"old", "-"},
                                                                 {"old", ""},
                                                                 {"old", "12345678"},
                                                                 {"old", "123456789"}};
  const auto read = [](const std::filesystem::path& path) {
    return std::filesystem::exists(path) ? bytes_of(path) : std::string("-");
  };
  for (std::size_t call = 0; call < left.size(); ++call) {
    for (const bool half : {false, true}) {
      if (half && call != 1) continue;
      const Scratch scratch;
      write_bytes(scratch / "c", "old");
      const TracedSave save = traced(
          scratch, [&] { replace(scratch.path()); }, KillPoint{call, half});
      EXPECT_EQ(save.status.signal, SIGKILL);
      EXPECT_EQ(save.calls.size(), call + 1);
      EXPECT_EQ(read(scratch / "c"), left[call].first) << call;
      EXPECT_EQ(read(scratch / "new"), half ? "1234" : left[call].second) << call;
    }
  }
}

TEST(TracedSave, FollowsThreadsAndOtherProcesses) {
  const Scratch scratch;
  const auto work = [&] {
    std::thread([&] { replace(scratch.path()); }).join();
    const pid_t child = ::fork();
    if (child == 0) {
      replace(scratch.path());
      ::pause();
    }
    ::waitpid(child, nullptr, 0);
  };
  const TracedSave save = traced(scratch, work, KillPoint{7});
  EXPECT_EQ(save.calls.size(), 8);
  EXPECT_EQ(save.status.signal, SIGKILL);
  EXPECT_EQ(bytes_of(scratch / "new"), "123456789");
}

TEST(TracedSave, AProcessThatDoesNotReachTheCallEndsAsItDoes) {
  const Scratch scratch;
  const TracedSave save = traced(
      scratch, [&] { replace(scratch.path()); }, KillPoint{4});
  EXPECT_EQ(save.status.code, 7);
  EXPECT_EQ(save.calls.size(), 4);
  const TracedSave crashed = traced(scratch, [] { ::raise(SIGABRT); });
  EXPECT_EQ(crashed.status.signal, SIGABRT);
  EXPECT_THAT(crashed.calls, IsEmpty());
}

TEST(TracedSave, HalfOfALargeWriteIsWholeBlocks) {
  EXPECT_EQ(half_of(2), 1);
  EXPECT_EQ(half_of(8191), 4095);
  EXPECT_EQ(half_of(8192), 4096);
  EXPECT_EQ(half_of(1 << 20), 1 << 19);
  EXPECT_EQ(half_of(12288), 4096);
}

TEST(Kills, AreBeforeEveryCallAndInEveryWriteOrEvenlySpread) {
  const std::vector<AlteringCall> calls = {{"openat"}, {"write", 1}, {"write", 2}, {"rename"}};
  EXPECT_THAT(kill_points(calls, 5),
              ElementsAre(KillPoint{0}, KillPoint{1}, KillPoint{2}, KillPoint{2, true}, KillPoint{3}));
  EXPECT_THAT(kill_points(calls, 3), ElementsAre(KillPoint{0}, KillPoint{2}, KillPoint{3}));
  EXPECT_THAT(kill_points(calls, 2), ElementsAre(KillPoint{0}, KillPoint{3}));
  EXPECT_THAT(kill_points({}, 2), IsEmpty());
}

TEST(Kills, AreJudgedByWhichCheckpointIsWhole) {
  const std::map<std::string, std::string> older = {{"w", "1"}}, base = {{"w", "2"}};
  const auto outcome = [&](const ReaderAnswer& answer) { return judge_kill(answer, older, base); };
  EXPECT_EQ(outcome(ReaderContents{{{"w", "1"}}}), KillOutcome::previous);
  EXPECT_EQ(outcome(ReaderContents{{{"w", "2"}}}), KillOutcome::complete);
  EXPECT_EQ(outcome(ReaderContents{{{"w", "3"}}}), KillOutcome::silently_wrong);
  EXPECT_EQ(outcome(ReaderContents{}), KillOutcome::silently_wrong);
  EXPECT_EQ(outcome(ReaderRefused{"E: no"}), KillOutcome::detected);
  EXPECT_EQ(outcome(ReaderDied{{0, 11}}), KillOutcome::crash);
  EXPECT_EQ(outcome(ReaderHung{}), KillOutcome::hang);
}

TEST(Kills, AreCountedByKind) {
  StudySpec spec;
  spec.formats = {Format::pytorch, Format::npz};
  spec.writers = {FileWriter::native};
  const auto row = [](std::uint64_t call, bool half, KillOutcome outcome, std::uint64_t left) {
    return StudyRow{Format::npz, FileWriter::native, KillResult{call, half, {"write"}, 0, outcome, "", left}};
  };
  const std::vector<StudyRow> rows = {
      {Format::npz, FileWriter::native,
       KillResult{0, false, {"openat", "write", "write"}, 4, KillOutcome::complete, "", 0}},
      row(1, false, KillOutcome::previous, 0),
      row(2, false, KillOutcome::detected, 2),
      row(3, true, KillOutcome::detected, 1)};
  const auto kinds = summarize_kills(spec, rows);
  ASSERT_EQ(kinds.size(), 1);
  EXPECT_EQ(kinds[0].calls, 3);
  EXPECT_EQ(kinds[0].points, 4);
  EXPECT_EQ(kinds[0].kills, 3);
  EXPECT_THAT(kinds[0].counts, ElementsAre(1, 0, 2, 0, 0, 0));
  EXPECT_EQ(kinds[0].left, 2);
  EXPECT_EQ(kills_json(kinds)[0]["counts"]["detected"], 2);
  EXPECT_THAT(kills_table(kinds), ::testing::HasSubstr("npz           native        3      3         1"));
  EXPECT_EQ(kills_table({}), "");
}

}  // namespace
}  // namespace bitrift::study
