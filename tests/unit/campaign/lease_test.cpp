#include "campaign/shard/lease.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "record/json/json.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::lease_test {
namespace {

using namespace std::chrono_literals;
using record::Json;
using testing::TemporaryFolder;
using tests::wait_until;
using Clock = std::chrono::steady_clock;

constexpr auto silence = 100ms;

// A lease as a driver on another machine writes it.
void write_stranger(const std::filesystem::path& folder, int beats) {
  std::filesystem::create_directories(folder);
  const Json value = {{"host", "elsewhere"}, {"pid", 1},        {"started", "1"},
                      {"boot", "another"},   {"namespace", ""}, {"since", "s"},
                      {"beats", beats},      {"over", false},   {"end", ""}};
  replace_text(folder / "driver.json", value.dump() + "\n");
}

/// Waits for a heartbeat that another process sees.
void expect_beat(const Lease& lease) {
  const std::string before = read_lease(lease.folder()).raw;
  EXPECT_TRUE(wait_until([&] { return read_lease(lease.folder()).raw != before; }));
}

TEST(Lease, WhileItIsHeldNobodyElseGetsOne) {
  const TemporaryFolder place;
  const auto first = LeaseTaker(place / "shard").try_take();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->number(), 1);
  LeaseTaker second(place / "shard");
  EXPECT_EQ(second.try_take(), nullptr);
  EXPECT_TRUE(second.alive());
  EXPECT_EQ(second.holder().pid, getpid());
}

TEST(Lease, AfterItsEndTheNextNumberIsFreeAndItsLastWordsCanBeRead) {
  const TemporaryFolder place;
  LeaseTaker(place / "shard").try_take()->set_end("no disk \"space\" left\nsecond line");
  const auto second = LeaseTaker(place / "shard").try_take();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->number(), 2);
  const LeaseHolder before = read_lease(numbered_folder(place / "shard", 1));
  EXPECT_TRUE(before.over);
  EXPECT_EQ(before.end, "no disk \"space\" left");
}

TEST(Lease, LastWordsOfAnySizeLeaveTheFileReadable) {
  const TemporaryFolder place;
  LeaseTaker(place / "shard").try_take()->set_end(std::string(5000, '\x01'));
  EXPECT_TRUE(read_lease(numbered_folder(place / "shard", 1)).over);
}

TEST(Lease, DriverThatWasKilledOnThisMachineIsReplacedAtOnce) {
  const TemporaryFolder place;
  const pid_t child = fork();
  if (child == 0) {
    const auto lease = LeaseTaker(place / "shard").try_take();
    while (lease != nullptr) pause();
    _exit(1);
  }
  LeaseTaker taker(place / "shard");
  std::unique_ptr<Lease> lease;
  EXPECT_TRUE(wait_until([&] { return last_lease(place / "shard") != 0; }));
  EXPECT_EQ(taker.try_take(), nullptr);
  kill(child, SIGKILL);
  // Not waited for yet: a driver whose parent is slow to notice is dead all the same.
  EXPECT_TRUE(wait_until([&] { return (lease = taker.try_take()) != nullptr; }));
  waitpid(child, nullptr, 0);
}

TEST(Lease, DriverOnAnotherMachineIsReplacedOnlyAfterSilence) {
  const TemporaryFolder place;
  write_stranger(place / "shard" / "0001", 1);
  LeaseTaker taker(place / "shard", {10ms, silence});
  EXPECT_EQ(taker.try_take(), nullptr);
  EXPECT_FALSE(taker.alive());
  // While it lives, each heartbeat that is seen begins the silence again, for longer than it may last.
  const auto began = Clock::now();
  auto heard = began;
  for (int beats = 2; Clock::now() < began + 2 * silence; ++beats) {
    write_stranger(place / "shard" / "0001", beats);
    heard = Clock::now();
    EXPECT_EQ(taker.try_take(), nullptr);
    EXPECT_TRUE(taker.alive());
  }
  std::unique_ptr<Lease> lease;
  ASSERT_TRUE(wait_until([&] { return (lease = taker.try_take()) != nullptr; }));
  EXPECT_GE(Clock::now(), heard + silence);
  EXPECT_EQ(lease->number(), 2);
}

TEST(Lease, UnreadableFileOfAStartCountsAsSilence) {
  const TemporaryFolder place;
  std::filesystem::create_directories(place / "shard" / "0001");
  LeaseTaker taker(place / "shard", {10ms, silence});
  const auto began = Clock::now();
  EXPECT_EQ(taker.try_take(), nullptr);
  EXPECT_TRUE(wait_until([&] { return taker.try_take() != nullptr; }));
  EXPECT_GE(Clock::now(), began + silence);
}

TEST(Lease, OfManyThatTryAtOnceOneGetsIt) {
  const TemporaryFolder place;
  for (int round = 0; round < 20; ++round) {
    const auto folder = place / std::to_string(round);
    std::vector<std::unique_ptr<Lease>> leases(8);
    {
      std::vector<std::jthread> threads;
      for (auto& lease : leases)
        threads.emplace_back([&folder, &lease] { lease = LeaseTaker(folder).try_take(); });
    }
    EXPECT_EQ(std::count_if(leases.begin(), leases.end(), [](const auto& one) { return one != nullptr; }), 1);
  }
}

TEST(Lease, HolderThatWasTakenForDeadFindsOut) {
  const TemporaryFolder place;
  LeaseTaker taker(place / "shard", {5ms, 1s});
  const auto lease = taker.try_take();
  for (int beats = 0; beats < 3; ++beats) expect_beat(*lease);
  EXPECT_FALSE(lease->lost());
  write_stranger(place / "shard" / "0002", 1);
  EXPECT_TRUE(wait_until([&] { return lease->lost(); }));
}

TEST(Lease, SignsOfLifeAreSeenByOthers) {
  const TemporaryFolder place;
  const auto lease = LeaseTaker(place / "shard", {5ms, 1s}).try_take();
  expect_beat(*lease);
}

}  // namespace
}  // namespace bitrift::campaign::lease_test
