#include "record/recovery.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::record::recovery_test {
namespace {

template <typename Value>
Json through_text(const Value& value) {
  return Json::parse(to_json(value).dump());
}

TEST(Recovery, WithoutProgressIsCountedFromTheFurthestStep) {
  const auto at = [](std::int64_t step, std::int64_t lost) {
    Recovery recovery;
    recovery.step = step;
    recovery.steps_lost = lost;
    return recovery;
  };
  EXPECT_EQ(recoveries_without_progress({}), 0);
  EXPECT_EQ(recoveries_without_progress({at(0, 0)}), 1);
  EXPECT_EQ(recoveries_without_progress({at(3, 0), at(3, 0), at(4, 0)}), 1);
  EXPECT_EQ(recoveries_without_progress({at(3, 0), at(4, 0), at(4, 0), at(4, 0)}), 3);
  // A rollback from step 9 to 5, and a failure on the way back.
  EXPECT_EQ(recoveries_without_progress({at(5, 4), at(5, 2), at(5, 4)}), 3);
  EXPECT_EQ(recoveries_without_progress({at(5, 4), at(5, 2), at(10, 0)}), 1);
}

TEST(RecoverySpec, SurvivesJsonWithEveryKey) {
  const RecoverySpec spec = {.kind = RecoveryKind::restart,
                             .state = StateSource::buddy,
                             .spares = 2,
                             .snapshot_every = 10,
                             .checkpoint_every = std::numeric_limits<std::int64_t>::max(),
                             .batch = BatchRule::smaller,
                             .expand_after = 5,
                             .forget = {Structure::optimizer, Structure::cursor}};
  EXPECT_EQ(through_text(spec).get<RecoverySpec>(), spec);
  for (std::size_t kind = 0; kind < names_of(RecoveryKind{}).words.size(); ++kind) {
    const RecoverySpec plain = {.kind = static_cast<RecoveryKind>(kind)};
    EXPECT_EQ(through_text(plain).get<RecoverySpec>(), plain);
    EXPECT_EQ(to_json(plain).size(), 1U);  // defaults leave no key
  }
}

TEST(RecoverySpec, WithoutAKindOrWithAnUnknownWordIsRefused) {
  EXPECT_ANY_THROW((void)Json::object().get<RecoverySpec>());
  EXPECT_THROW((void)Json::object({{"kind", "pray"}}).get<RecoverySpec>(), Error);
  EXPECT_THROW((void)Json::object({{"kind", "spare"}, {"state", "cloud"}}).get<RecoverySpec>(), Error);
  EXPECT_THROW((void)Json::object({{"kind", "spare"}, {"batch", "larger"}}).get<RecoverySpec>(), Error);
  EXPECT_THROW((void)Json::object({{"kind", "spare"}, {"forget", {"everything"}}}).get<RecoverySpec>(),
               Error);
}

Recovery recovery() {
  return {.kind = RecoveryKind::spare,
          .state = StateSource::file,
          .failed = {0, 3},
          .ranks_before = 4,
          .ranks_after = 3,
          .step = 40,
          .steps_lost = 7,
          .steps_redone = 8,
          .bytes_moved = std::numeric_limits<std::uint64_t>::max(),
          .times = {.detect = 0.013,
                    .revoke = 1e-5,
                    .agree = 2e-4,
                    .shrink = 3e-4,
                    .respawn = 0.1,
                    .state = 0.25,
                    .redo = 1.0 / 3}};
}

TEST(Recovery, SurvivesJsonWithEveryKey) {
  const Recovery one = recovery();
  const Recovery back = through_text(one).get<Recovery>();
  EXPECT_EQ(to_json(back), to_json(one));
  EXPECT_EQ(back.kind, one.kind);
  EXPECT_EQ(back.state, one.state);
  EXPECT_EQ(back.failed, one.failed);
  EXPECT_EQ(back.ranks_before, 4);
  EXPECT_EQ(back.ranks_after, 3);
  EXPECT_EQ(back.step, 40);
  EXPECT_EQ(back.steps_lost, 7);
  EXPECT_EQ(back.steps_redone, 8);
  EXPECT_EQ(back.bytes_moved, one.bytes_moved);
  EXPECT_EQ(back.times.detect, one.times.detect);
  for (const auto member : {&RecoveryTimes::revoke, &RecoveryTimes::agree, &RecoveryTimes::shrink,
                            &RecoveryTimes::respawn, &RecoveryTimes::state, &RecoveryTimes::redo})
    EXPECT_EQ(back.times.*member, one.times.*member);
}

TEST(Recovery, KeepsWhatIsUnknownUnknown) {
  Recovery one = recovery();
  one.state.reset();
  one.times.detect.reset();
  const Json value = to_json(one);
  EXPECT_FALSE(value.contains("state"));
  EXPECT_FALSE(value["volatile"].contains("detect"));
  const Recovery back = value.get<Recovery>();
  EXPECT_EQ(back.state, std::nullopt);
  EXPECT_EQ(back.times.detect, std::nullopt);
}

TEST(Recovery, TakesItsTimesFromTheVolatilePartOnly) {
  Json value = to_json(recovery(), Times::with);
  value.erase("volatile");
  EXPECT_EQ(value.get<Recovery>().times.total(), 0);
  EXPECT_EQ(value["kind"], "spare");
  value.erase("failed");
  EXPECT_ANY_THROW((void)value.get<Recovery>());
}

TEST(RecoveryTimes, AddUpToTheirTotal) {
  const RecoveryTimes times = {
      .detect = 1, .revoke = 2, .agree = 4, .shrink = 8, .respawn = 16, .state = 32, .redo = 64};
  EXPECT_EQ(times.total(), 127);
  EXPECT_EQ(RecoveryTimes{.redo = 3}.total(), 3);
}

TEST(Relaunch, NamesAllRanksThatLeftWordAndTheLastMoment) {
  const Relaunch relaunch = relaunch_after(
      {{.time = 5, .rank = 3, .step = 7, .phase = TrainingPhase::reduce}, {6, 1, 7, TrainingPhase::reduce}},
      4, 6.5);
  ASSERT_EQ(relaunch.recoveries.size(), 1U);
  EXPECT_EQ(relaunch.recoveries[0].failed, (std::vector<int>{1, 3}));
  EXPECT_EQ(relaunch.recoveries[0].times.detect, 0.5);
  const Relaunch back = through_text(relaunch).get<Relaunch>();
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.phase, TrainingPhase::reduce);
  EXPECT_EQ(back.recoveries[0].failed, relaunch.recoveries[0].failed);
}

TEST(Relaunch, LosesWhatCameBehindTheCheckpoint) {
  Relaunch relaunch = relaunch_after({{1, 0, 7, TrainingPhase::update}}, 2, 1);
  EXPECT_EQ(relaunch.continued_behind(4).step, 4);
  EXPECT_EQ(relaunch.continued_behind(4).steps_lost, 2);  // 5 and 6; 7 was under way
  EXPECT_EQ(relaunch.continued_behind(4).steps_redone, 3);
  EXPECT_EQ(relaunch.continued_behind(6).steps_lost, 0);
  relaunch.phase = TrainingPhase::evaluate;  // after step 7
  EXPECT_EQ(relaunch.continued_behind(4).steps_lost, 3);
  EXPECT_EQ(relaunch.continued_behind(4).steps_redone, 3);
  EXPECT_EQ(relaunch.continued_behind(7).steps_redone, 0);
}

TEST(Relaunch, OfAJobThatLeftNoWordKnowsNoRank) {
  const Relaunch relaunch = relaunch_after({}, 2, 1);
  EXPECT_TRUE(relaunch.recoveries[0].failed.empty());
  EXPECT_FALSE(relaunch.recoveries[0].times.detect);
  EXPECT_EQ(relaunch.continued_behind(4).steps_redone, 0);
}

}  // namespace
}  // namespace bitrift::record::recovery_test
