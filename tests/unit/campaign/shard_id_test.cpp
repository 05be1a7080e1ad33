#include "campaign/shard/shard_id.h"

#include <cstdlib>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::shard_id_test {
namespace {

using ::testing::HasSubstr;
using tests::error_of;

class Slurm : public ::testing::Test {
 protected:
  void set(const std::map<std::string, std::string>& values) {
    for (const char* name : names) unsetenv(name);
    for (const auto& [name, value] : values) setenv(("SLURM_ARRAY_TASK_" + name).c_str(), value.c_str(), 1);
  }
  void TearDown() override { set({}); }

 private:
  static constexpr const char* names[] = {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN",
                                          "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT",
                                          "SLURM_ARRAY_TASK_STEP"};
};

TEST(ShardId, CountsFromOne) {
  EXPECT_EQ(parse_shard("2/3"), (ShardId{2, 3}));
  EXPECT_EQ(parse_shard("1/1"), (ShardId{1, 1}));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_shard("0/3")); }), HasSubstr("1/3 to 3/3"));
  EXPECT_THAT(error_of([] { static_cast<void>(parse_shard("4/3")); }), HasSubstr("1/3 to 3/3"));
}

TEST(ShardId, AnythingElseIsRefused) {
  for (const char* text : {"", "2", "2/", "/3", "a/3", "2/3/4", "2/3 ", "-1/3", "1/0", "1/10001", "SLURM"}) {
    EXPECT_THAT(error_of([&] { static_cast<void>(parse_shard(text)); }), HasSubstr("--shard")) << text;
  }
}

TEST_F(Slurm, PlaceInTheArrayCountsWhateverItsFirstTaskIsCalled) {
  set({{"ID", "0"}, {"MIN", "0"}, {"MAX", "2"}, {"COUNT", "3"}, {"STEP", "1"}});
  EXPECT_EQ(parse_shard("slurm"), (ShardId{1, 3}));
  set({{"ID", "3"}, {"MIN", "1"}, {"MAX", "3"}, {"COUNT", "3"}, {"STEP", "1"}});
  EXPECT_EQ(parse_shard("slurm"), (ShardId{3, 3}));
  set({{"ID", "14"}, {"MIN", "10"}, {"MAX", "16"}, {"COUNT", "4"}, {"STEP", "2"}});
  EXPECT_EQ(parse_shard("slurm"), (ShardId{3, 4}));
}

TEST_F(Slurm, ArrayWithHolesAndNoArrayAtAllAreRefused) {
  set({{"ID", "5"}, {"MIN", "1"}, {"MAX", "9"}, {"COUNT", "3"}, {"STEP", "1"}});
  EXPECT_THAT(error_of([] { static_cast<void>(parse_shard("slurm")); }), HasSubstr("--array=1-3"));
  set({{"ID", "x"}, {"MIN", "1"}, {"MAX", "9"}, {"COUNT", "3"}});
  EXPECT_THAT(error_of([] { static_cast<void>(parse_shard("slurm")); }), HasSubstr("SLURM_ARRAY_TASK_ID=x"));
  set({});
  EXPECT_THAT(error_of([] { static_cast<void>(parse_shard("slurm")); }),
              HasSubstr("SLURM_ARRAY_TASK_ID is not set"));
}

record::Round round_of(const std::vector<std::uint64_t>& draws) {
  record::Round round;
  round.number = 2;
  round.arms = {"serial", "data-2"};
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const std::string name = "weight." + std::to_string(i);
    round.strata.push_back({{name, "weight", "sign", 1000}, 10 * i, draws[i], 0});
  }
  return round;
}

TEST(Share, EveryTrialOfARoundBelongsToOneShardAndSharesDifferByOneAtMost) {
  const record::Round round = round_of({5, 1, 0, 1, 1, 12, 1});
  for (const int count : {1, 2, 3, 7, 50}) {
    std::set<record::TrialId> all;
    std::size_t least = 1000;
    std::size_t most = 0;
    for (int index = 1; index <= count; ++index) {
      const auto share = trials_of({index, count}, round);
      for (const RunKey& key : share) EXPECT_TRUE(all.insert(key.id).second) << key.id.text();
      least = std::min(least, share.size());
      most = std::max(most, share.size());
    }
    EXPECT_EQ(all.size(), 2 * round.draws());
    EXPECT_LE(most - least, 1U) << count;
  }
}

TEST(Share, CleanAndJitterRunsAreTakenInTurnAndEverythingElseByAll) {
  using record::TrialKind;
  for (const TrialKind kind : {TrialKind::envelope, TrialKind::held_out, TrialKind::jitter}) {
    std::map<int, int> shares;
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      int takers = 0;
      for (int index = 1; index <= 3; ++index) {
        const bool taken = takes({index, 3}, {kind, {"a", name_of(kind), draw}});
        takers += taken ? 1 : 0;
        shares[index] += taken ? 1 : 0;
      }
      EXPECT_EQ(takers, 1);
    }
    EXPECT_EQ(shares, (std::map<int, int>{{1, 7}, {2, 7}, {3, 6}}));
  }
  EXPECT_TRUE(takes({2, 3}, {record::TrialKind::control, {"a", "control", 0}}));
  EXPECT_TRUE(takes({2, 3}, {record::TrialKind::control, {"a", "control:order-1", 0}}));
  EXPECT_TRUE(takes({3, 3}, {record::TrialKind::canary, {"a", "canary:nan", 0}}));
}

}  // namespace
}  // namespace bitrift::campaign::shard_id_test
