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

namespace bitrift::campaign::lease_test {
namespace {

using namespace std::chrono_literals;
using record::Json;
using testing::TemporaryFolder;

// A lease as a driver on another machine writes it.
void write_stranger(const std::filesystem::path& folder, int beats) {
  std::filesystem::create_directories(folder);
  const Json value = {{"host", "elsewhere"}, {"pid", 1},        {"started", "1"},
                      {"boot", "another"},   {"namespace", ""}, {"since", "s"},
                      {"beats", beats},      {"over", false},   {"end", ""}};
  replace_text(folder / "driver.json", value.dump() + "\n");
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
  while (last_lease(place / "shard") == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(taker.try_take(), nullptr);
  kill(child, SIGKILL);
  // Not waited for yet: a driver whose parent is slow to notice is dead all the same.
  for (int i = 0; i < 2000 && !lease; ++i, std::this_thread::sleep_for(1ms)) lease = taker.try_take();
  EXPECT_NE(lease, nullptr);
  waitpid(child, nullptr, 0);
}

TEST(Lease, DriverOnAnotherMachineIsReplacedOnlyAfterSilence) {
  const TemporaryFolder place;
  write_stranger(place / "shard" / "0001", 1);
  LeaseTaker taker(place / "shard", {10ms, 300ms});
  EXPECT_EQ(taker.try_take(), nullptr);
  EXPECT_FALSE(taker.alive());
  std::this_thread::sleep_for(200ms);
  write_stranger(place / "shard" / "0001", 2);  // it lives: the silence begins anew
  EXPECT_EQ(taker.try_take(), nullptr);
  EXPECT_TRUE(taker.alive());
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(taker.try_take(), nullptr);
  std::this_thread::sleep_for(150ms);
  const auto lease = taker.try_take();
  ASSERT_NE(lease, nullptr);
  EXPECT_EQ(lease->number(), 2);
}

TEST(Lease, UnreadableFileOfAStartCountsAsSilence) {
  const TemporaryFolder place;
  std::filesystem::create_directories(place / "shard" / "0001");
  LeaseTaker taker(place / "shard", {10ms, 50ms});
  EXPECT_EQ(taker.try_take(), nullptr);
  std::this_thread::sleep_for(60ms);
  EXPECT_NE(taker.try_take(), nullptr);
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
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(lease->lost());
  write_stranger(place / "shard" / "0002", 1);
  for (int i = 0; i < 2000 && !lease->lost(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(lease->lost());
}

TEST(Lease, SignsOfLifeAreSeenByOthers) {
  const TemporaryFolder place;
  const auto lease = LeaseTaker(place / "shard", {5ms, 1s}).try_take();
  const std::string first = read_lease(lease->folder()).raw;
  for (int i = 0; i < 2000 && read_lease(lease->folder()).raw == first; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_NE(read_lease(lease->folder()).raw, first);
}

}  // namespace
}  // namespace bitrift::campaign::lease_test
