#include "train/parallel/replica_map.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::train {
namespace {

using Ranks = std::vector<int>;

TEST(ReplicaMap, GivesEachSeatToTheRankOfItsNumber) {
  const ReplicaMap map(2, 3);
  EXPECT_EQ(map.ranks(), 6);
  EXPECT_EQ(map.host(1, 2), 5);
  EXPECT_EQ(map.seats(4), (Ranks{4}));
  EXPECT_EQ(map.stage_on(4), 1);
  EXPECT_EQ(map.replicas_on(4), (Ranks{1}));
  EXPECT_EQ(map.ranks_of_stage(2), (Ranks{2, 5}));
  EXPECT_EQ(map.most_on_a_rank(), 1);
}

TEST(ReplicaMap, RefusesTwoStagesOnOneRank) {
  EXPECT_THROW(ReplicaMap(1, 2, {0, 0}), Error);
  EXPECT_THROW(ReplicaMap(2, 2, {0, 1, 0}), Error);
}

TEST(ReplicaMap, SpreadsFourReplicasUnevenlyOverThreeRanks) {
  const ReplicaMap left = shrunken(ReplicaMap(4, 1), {0, 1, 3});
  EXPECT_EQ(left.hosts(), (Ranks{0, 1, 0, 2}));  // 2 + 1 + 1
  EXPECT_EQ(left.most_on_a_rank(), 2);
}

TEST(ReplicaMap, LosesOneRankAfterTheOtherDownToOne) {
  ReplicaMap map(4, 1);
  map = shrunken(map, {1, 2, 3});
  EXPECT_EQ(map.hosts(), (Ranks{0, 0, 1, 2}));
  map = shrunken(map, {0, 2});
  EXPECT_EQ(map.hosts(), (Ranks{0, 0, 1, 1}));
  map = shrunken(map, {1});
  EXPECT_EQ(map.hosts(), (Ranks{0, 0, 0, 0}));
}

TEST(ReplicaMap, KeepsAStageWithThoseWhoHoldIt) {
  // Rank 2 held stage 0 of replica 1: rank 0 holds the same stage.
  EXPECT_EQ(shrunken(ReplicaMap(2, 2), {0, 1, 3}).hosts(), (Ranks{0, 1, 0, 2}));
}

TEST(ReplicaMap, MovesASurvivorToAStageThatNobodyHolds) {
  // Ranks 1 and 3 held stage 1; the last of those that hold stage 0 takes it over.
  EXPECT_EQ(shrunken(ReplicaMap(2, 2), {0, 2}).hosts(), (Ranks{0, 1, 0, 1}));
}

TEST(ReplicaMap, RefusesFewerRanksThanStages) {
  EXPECT_THROW((void)shrunken(ReplicaMap(1, 3), {0, 2}), Error);
}

}  // namespace
}  // namespace bitrift::train
