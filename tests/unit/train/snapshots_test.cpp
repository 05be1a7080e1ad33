#include "train/recover/snapshots.h"

#include <gmock/gmock.h>

namespace bitrift::train::snapshots_test {
namespace {

Snapshot at_step(std::int64_t step, std::string state) {
  return {.held = {{step, Next::step}, 0, 1, 0}, .ledger = "ledger", .state = std::move(state)};
}

const Layout& alone() {
  static const Layout layout(ReplicaMap(1, 1), mpi::Communicator());
  return layout;
}

TEST(Snapshots, KeepTwoGenerations) {
  Snapshots snapshots;
  for (const std::int64_t step : {0, 5, 10, 15}) snapshots.take(at_step(step, std::to_string(step)), alone());
  EXPECT_EQ(snapshots.held().size(), 2);
  EXPECT_EQ(snapshots.find({5, Next::step}, 0, 1, 0), nullptr);
  ASSERT_NE(snapshots.find({10, Next::step}, 0, 1, 0), nullptr);
  EXPECT_EQ(snapshots.find({15, Next::step}, 0, 1, 0)->state, "15");
}

TEST(Snapshots, GiveTheBufferOfTheOneThatWentAway) {
  Snapshots snapshots;
  EXPECT_TRUE(snapshots.buffer().empty());
  std::vector<const char*> places;
  for (const std::int64_t step : {0, 5, 10}) {
    std::string state = snapshots.buffer();
    state.resize(1000, static_cast<char>('a' + step));
    places.push_back(state.data());
    snapshots.take(at_step(step, std::move(state)), alone());
  }
  EXPECT_EQ(snapshots.buffer().data(), places[0]);
  EXPECT_TRUE(snapshots.buffer().empty());
}

TEST(Snapshots, TakenAgainAtTheSamePlaceReplaceTheEarlierOne) {
  Snapshots snapshots;
  snapshots.take(at_step(5, "first"), alone());
  snapshots.take(at_step(5, "second"), alone());
  EXPECT_EQ(snapshots.held().size(), 1);
  EXPECT_EQ(snapshots.find({5, Next::step}, 0, 1, 0)->state, "second");
}

TEST(Snapshots, AreFoundByStageAndPreferredByReplica) {
  Snapshots snapshots;
  for (const int replica : {1, 2}) {
    Snapshot one = at_step(5, "of " + std::to_string(replica));
    one.held.replica = replica;
    snapshots.keep(std::move(one));
  }
  EXPECT_EQ(snapshots.find({5, Next::step}, 0, 1, 1)->state, "of 1");
  EXPECT_NE(snapshots.find({5, Next::step}, 0, 1, 7), nullptr);  // another replica's is as good
  EXPECT_EQ(snapshots.find({5, Next::step}, 1, 1, 1), nullptr);
  EXPECT_EQ(snapshots.find({5, Next::step}, 0, 2, 1), nullptr);
  EXPECT_EQ(snapshots.find({5, Next::look}, 0, 1, 1), nullptr);
}

}  // namespace
}  // namespace bitrift::train::snapshots_test
