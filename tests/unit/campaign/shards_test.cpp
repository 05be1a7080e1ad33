#include "campaign/shard/shards.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>

#include "campaign/commands/merge.h"
#include "campaign/plan/ends.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::shards_test {
namespace {

using ::testing::HasSubstr;
using testing::row;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using tests::error_of;

constexpr const char* still_waiting = "still waiting";

RunKey trial(std::uint64_t draw) { return {record::TrialKind::trial, {"a", "s", draw}}; }

// Two shards of a stage of two trials, one each.
class TwoShards : public ::testing::Test {
 protected:
  [[nodiscard]] Layout layout() const { return {place_.path()}; }
  [[nodiscard]] static Stage stage() { return {"round-0000", "round 0", {{trial(0)}, {trial(1)}}}; }

  /// What meet() ends with when nobody comes: it waits, or the error.
  std::string meeting(Shard& shard, int ticks = 4) {
    try {
      const auto other = shard.meet(stage(), [&] {
        if (ticks-- == 0) throw std::runtime_error(still_waiting);
      });
      return other ? "stands in for " + other->id().text() : "met";
    } catch (const std::exception& end) {
      return end.what();
    }
  }

  TemporaryFolder place_;
  Progress progress_;
  Shard one_{layout(), {1, 2}, {}, progress_};
  Shard two_{layout(), {2, 2}, {}, progress_};
};

TEST_F(TwoShards, RowsWithoutAMarkerAreNotCountedForTheyMayBeTakenBack) {
  Journal first(one_.place().journal());
  Journal second(two_.place().journal());
  first.append(row("a", "s", 0));
  second.append(row("a", "s", 1));
  one_.finish(stage(), first);
  EXPECT_EQ(meeting(one_), still_waiting);
  second.retract({"a/s/1"}, "a check failed");
  second.append(row("a", "s", 1));
  two_.finish(stage(), second);
  EXPECT_EQ(meeting(one_), "met");
  EXPECT_EQ(meeting(two_), "met");
}

TEST_F(TwoShards, AMarkerWithoutItsRowsIsNotEnough) {
  Journal first(one_.place().journal());
  Journal second(two_.place().journal());
  first.append(row("a", "s", 0));
  one_.finish(stage(), first);
  two_.finish(stage(), second);
  EXPECT_EQ(meeting(one_), still_waiting);
  second.append(row("a", "s", 1));
  EXPECT_EQ(meeting(one_), "met");
}

TEST_F(TwoShards, WaitsUntilAllThatTheMarkerPromisesCanBeRead) {
  Journal first(one_.place().journal());
  Journal second(two_.place().journal());
  first.append(row("a", "s", 0));
  second.append(row("a", "s", 1));
  second.append(row("a", "s", 7));
  one_.finish(stage(), first);
  two_.finish(stage(), second);
  const auto path = two_.place().journal();
  const auto whole = std::filesystem::file_size(path);
  const std::string text = read_text(path);
  std::filesystem::resize_file(path, whole - 5);  // as a client sees it whose cache is old
  EXPECT_EQ(meeting(one_), still_waiting);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(meeting(one_), "met");
}

TEST_F(TwoShards, SecondDriverOfAShardIsRefused) {
  EXPECT_THAT(error_of([&] {
                Shard(layout(), {2, 2}, {}, progress_);
              }),
              HasSubstr("another `bitrift campaign run` is running shard 2/2 (host "));
}

TEST_F(TwoShards, NobodyStandsInForAShardWithADriver) {
  Journal first(one_.place().journal());
  first.append(row("a", "s", 0));
  one_.finish(stage(), first);
  EXPECT_EQ(meeting(one_, 40), still_waiting);
}

TEST_F(TwoShards, DriverWhosePlaceWasTakenStops) {
  EXPECT_EQ(error_of([&] { one_.check_held(); }), "");
  std::filesystem::create_directories(numbered_folder(one_.scratch_root(), 2));
  std::string text;
  EXPECT_TRUE(tests::wait_until([&] { return !(text = error_of([&] { one_.check_held(); })).empty(); }));
  EXPECT_THAT(text, StartsWith("shard 1/2: this process sent no heartbeat"));
}

TEST_F(TwoShards, FirstGoldenRunIsThatOfAll) {
  record::RunResult other = testing::result("b");
  other.final_digest = "another";
  EXPECT_FALSE(one_.golden(0, 0));
  EXPECT_EQ(one_.agree(0, 0, testing::result("a")).result.final_digest, "d");
  EXPECT_EQ(two_.agree(0, 0, other).result.final_digest, "d");
  EXPECT_THAT(two_.golden(0, 0).value().origin, StartsWith("shard 1/2 on host "));
  EXPECT_FALSE(two_.golden(1, 0)) << "each arm has its own";
  EXPECT_FALSE(two_.golden(0, 1)) << "each data order has its own";
  EXPECT_EQ(two_.agree(0, 1, other).result.final_digest, "another");
  EXPECT_EQ(one_.agree(0, 1, testing::result("a")).result.final_digest, "another");
  EXPECT_THAT(one_.golden(0, 1).value().origin, StartsWith("shard 2/2 on host "));
  EXPECT_TRUE(std::filesystem::exists(layout().shards() / "golden-0000.json"));
  EXPECT_TRUE(std::filesystem::exists(layout().shards() / "golden-0000-order-0001.json"));
}

class OneOfTwo : public ::testing::Test {
 protected:
  /// The first shard has finished its part of the stage; the second has no driver.
  OneOfTwo() {
    Journal own(one_.place().journal());
    own.append(row("a", "s", 0));
    one_.finish(stage_, own);
  }
  std::unique_ptr<StandIn> meet() {
    return one_.meet(stage_, [] {});
  }

  TemporaryFolder place_;
  Progress progress_;
  Layout layout_{place_.path()};
  Stage stage_{"round-0000", "round 0", {{trial(0)}, {trial(1)}}};
  Shard one_{layout_, {1, 2}, {{}, std::chrono::duration<double>(0.05)}, progress_};
};

TEST_F(OneOfTwo, StandsInAndFinishesTheStageOfAShardThatNeverStarted) {
  {
    const auto other = meet();
    ASSERT_TRUE(other);
    EXPECT_EQ(other->id(), (ShardId{2, 2}));
    EXPECT_EQ(other->place().root.parent_path().filename(), "2-of-2");
    EXPECT_EQ(read_lease(other->place().root).of, "1/2");
    other->ledger().journal().append(row("a", "s", 1));
    EXPECT_NE(other->ledger().find_own({"a", "s", 1}), nullptr);
    one_.finish(stage_, *other);
  }
  EXPECT_FALSE(meet()) << "all shards have finished";
  EXPECT_NE(one_.others().find_in(2, {"a", "s", 1}), nullptr);
  EXPECT_TRUE(is_marked(layout_, {2, 2}, "round-0000"));
}

TEST_F(OneOfTwo, RowsOfAStandInThatDidNotFinishAreKept) {
  meet()->ledger().journal().append(row("a", "s", 1));
  const auto again = meet();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->place().root.filename(), "0002");
  EXPECT_NE(again->ledger().find_own({"a", "s", 1}), nullptr);
  EXPECT_FALSE(is_marked(layout_, {2, 2}, "round-0000"));
}

TEST_F(OneOfTwo, RetractionOfAStandInCounts) {
  const auto other = meet();
  other->ledger().journal().append(row("a", "s", 1));
  other->ledger().journal().retract({"a/s/1"}, "a check failed");
  EXPECT_EQ(other->ledger().find({"a", "s", 1}), nullptr);
}

TEST_F(OneOfTwo, OwnDriverAsksForItsShardAndGetsIt) {
  auto other = meet();
  std::atomic<bool> started = false;
  std::thread late([&] {
    Progress silent;
    const Shard two(layout_, {2, 2}, {}, silent);
    started = true;
    while (started) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  EXPECT_TRUE(tests::wait_until([&] { return other->wanted(); }));
  EXPECT_FALSE(started);
  one_.give_back(*other);
  other.reset();
  EXPECT_TRUE(tests::wait_until([&] { return started.load(); }));
  EXPECT_FALSE(std::filesystem::exists(wanted_file(layout_.shards() / "2-of-2")));
  started = false;
  late.join();
}

TEST_F(OneOfTwo, DamagedJournalOfTheOtherShardIsLeftToItsDriver) {
  {
    Shard two(layout_, {2, 2}, {}, progress_);
    std::ofstream(two.place().journal()) << "rubbish\n";
  }
  int ticks = 40;
  EXPECT_THROW(static_cast<void>(one_.meet(stage_,
                                           [&] {
                                             if (ticks-- == 0) throw std::runtime_error(still_waiting);
                                           })),
               std::runtime_error);
}

TEST_F(OneOfTwo, ControlsAndCanariesAreNotAwaitedFromAStandIn) {
  stage_.runs[1].push_back({record::TrialKind::control, {"a", "control", 0}});
  stage_.runs[1].push_back({record::TrialKind::canary, {"a", "canary:nan", 0}});
  {
    const auto other = meet();
    other->ledger().journal().append(row("a", "s", 1));
    one_.finish(stage_, *other);
  }
  EXPECT_FALSE(meet());
}

TEST(Shard, WaitHoursEndInVainWithTheNameOfTheMissingOne) {
  const TemporaryFolder place;
  Progress progress;
  Shard one(Layout{place.path()}, {1, 2}, {0.1 / 3600}, progress);
  Journal own(one.place().journal());
  const Stage stage{"round-0000", "round 0", {{}, {trial(1)}}};
  one.finish(stage, own);
  EXPECT_THAT(error_of([&] { static_cast<void>(one.meet(stage, [] {})); }),
              HasSubstr("h for shard 2; start the missing shards"));
}

TEST(Shard, NextStartKnowsTheRowsOfTheOneBefore) {
  const TemporaryFolder place;
  Progress progress;
  const Stage stage{"round-0000", "round 0", {{trial(0)}}};
  {
    Shard first(Layout{place.path()}, {1, 1}, {}, progress);
    Journal(first.place().journal()).append(row("a", "s", 0));
  }
  Shard second(Layout{place.path()}, {1, 1}, {}, progress);
  EXPECT_EQ(second.place().root.filename(), "0002");
  EXPECT_NE(second.others().find_in(1, {"a", "s", 0}), nullptr);
}

TEST(Shard, DamagedJournalOfAnEarlierStartIsRefused) {
  const TemporaryFolder place;
  Progress progress;
  {
    Shard first(Layout{place.path()}, {1, 2}, {}, progress);
    std::ofstream(first.place().journal()) << "rubbish\n";
  }
  EXPECT_THAT(error_of([&] {
                Shard(Layout{place.path()}, {1, 2}, {}, progress);
              }),
              HasSubstr("1-of-2/0001/trials.jsonl:1: "));
}

}  // namespace
}  // namespace bitrift::campaign::shards_test
