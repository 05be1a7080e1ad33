#include "campaign/plan/golden_runs.h"

#include <gmock/gmock.h>

#include "campaign/driver/driver.h"
#include "campaign/plan/drills.h"
#include "campaign/plan/ends.h"
#include "campaign/worker/private_copy.h"
#include "core/file.h"
#include "inject/draw/fault_plan.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::golden_runs_test {
namespace {

using ::testing::HasSubstr;
using testing::result;
using testing::row;
using testing::small_spec;
using tests::error_of;

// The arms of small_spec().
constexpr std::size_t kSerial = 0;
constexpr std::size_t kData = 1;

template <typename Action>
std::string misbehaviour_of(Action&& action) {
  try {
    action();
  } catch (const Misbehaviour& problem) {
    return problem.what();
  }
  return "";
}

TEST(RunDifference, IdAndDurationDoNotCount) {
  record::RunResult other = result("b");
  other.seconds = 3;
  EXPECT_EQ(run_difference(result("a"), other), std::nullopt);
}

TEST(RunDifference, MetricIsNamedBeforeTheDigestThatFollowsFromIt) {
  record::RunResult other = result("a", 0.75);
  other.final_digest = "e";
  EXPECT_EQ(run_difference(result("a"), other), "replicas[0][0].test_loss is 0.5 and 0.75");
  other = result("a");
  other.replica_digests = {"e"};
  EXPECT_EQ(run_difference(result("a"), other), "replica_digests[0] is \"d\" and \"e\"");
}

TEST(RunDifference, OneBitOfAMetricIsADifference) {
  EXPECT_THAT(*run_difference(result("a", 0.5), result("a", std::nextafter(0.5, 1))), HasSubstr("test_loss"));
}

TEST(Controls, FirstNoFlipRunIsGoldenAndOthersMustEqualIt) {
  const design::CampaignSpec spec = small_spec();
  Controls controls(spec, {});
  EXPECT_FALSE(controls.golden_known(kSerial, 0));
  controls.check(kSerial, 0, result("x"), "first");
  EXPECT_TRUE(controls.golden_known(kSerial, 0));
  controls.check(kSerial, 0, result("y"), "second");
  controls.check(kData, 0, result("z", 0.625), "other arm");
  EXPECT_THAT(misbehaviour_of([&] { controls.check(kSerial, 0, result("w", 0.625), "third"); }),
              ::testing::AllOf(HasSubstr("arm 'serial': third"), HasSubstr("test_loss is 0.5 and 0.625")));
}

TEST(Controls, EveryDataOrderHasAGoldenRunOfItsOwn) {
  design::CampaignSpec spec = small_spec();
  spec.orders = 2;
  auto other = row("serial", "control:order-1", 0, record::TrialKind::control);
  other.order = 1;
  other.result->final_digest = "e";
  auto zero = row("serial", "control:zero", 0, record::TrialKind::control);
  zero.result->final_digest = "z";
  Controls controls(spec, {row("serial", "control", 0, record::TrialKind::control), other, zero});
  EXPECT_TRUE(controls.golden_known(kSerial, 1));
  EXPECT_FALSE(controls.golden_known(kSerial, 2));
  EXPECT_FALSE(controls.golden_known(kData, 1));
  controls.check(kSerial, 0, result("x"), "same");
  controls.check(kSerial, 1, *other.result, "same");
  EXPECT_THAT(misbehaviour_of([&] { controls.check(kSerial, 1, result("x"), "that of order 0"); }),
              HasSubstr("that of order 0: no-flip runs of data order 1 are not bit-identical"));
  spec.bases.front().min_test_accuracy = 0.951;
  Controls stricter(spec, {});
  EXPECT_THAT(error_of([&] { stricter.check(kSerial, 1, result("x"), "x"); }),
              HasSubstr("the golden run of data order 1 reaches test accuracy 0.9500"));
}

TEST(Controls, GoldenRunIsTakenFromTheJournal) {
  const design::CampaignSpec spec = small_spec();
  Controls controls(spec, {row("serial", "control", 0, record::TrialKind::control)});
  EXPECT_TRUE(controls.golden_known(kSerial, 0));
  EXPECT_NE(misbehaviour_of([&] { controls.check(kSerial, 0, result("w", 0.625), "check"); }), "");
  auto other = row("serial", "control", 1, record::TrialKind::control);
  other.result->last_loss = "0x1p-3";
  EXPECT_THAT(misbehaviour_of([&] {
                const Controls both(spec, {row("serial", "control", 0, record::TrialKind::control), other});
              }),
              HasSubstr("serial/control/1"));
}

TEST(Controls, NoFlipRunThatLoadedSomethingElseOrFailedIsMisbehaviour) {
  const design::CampaignSpec spec = small_spec();
  Controls controls(spec, {});
  record::RunResult changed = result("a");
  changed.changed_tensors = {"model/fc2.bias"};
  EXPECT_THAT(misbehaviour_of([&] { controls.check(kSerial, 0, changed, "x"); }),
              HasSubstr("model/fc2.bias"));
  record::RunResult rejected = result("a");
  rejected.status = record::RunStatus::rejected;
  rejected.detail = "too short";
  EXPECT_THAT(misbehaviour_of([&] { controls.check(kSerial, 0, rejected, "x"); }),
              HasSubstr("rejected: too short"));
}

TEST(Controls, GoldenRunBelowTheAskedAccuracyIsRefused) {
  design::CampaignSpec spec = small_spec();
  spec.bases.front().min_test_accuracy = 0.95;
  Controls controls(spec, {});
  controls.check(kSerial, 0, result("a"), "exactly reached");
  spec.bases.front().min_test_accuracy = 0.951;
  Controls stricter(spec, {});
  EXPECT_THAT(error_of([&] { stricter.check(kSerial, 0, result("a"), "x"); }),
              HasSubstr("min_test_accuracy"));
}

TEST(Controls, DeadlineFollowsTheSlowestControlUnlessTheSpecNamesOne) {
  design::CampaignSpec spec = small_spec();
  Controls controls(spec, {});
  EXPECT_EQ(controls.deadline_s(kSerial), 600);
  controls.took(kSerial, 2);
  controls.took(kSerial, 1);
  EXPECT_EQ(controls.deadline_s(kSerial), 50);
  EXPECT_EQ(controls.deadline_s(kData), 600);
  spec.deadline_s = 3;
  EXPECT_EQ(controls.deadline_s(kSerial), 3);
}

TEST(Drills, AreReadAndWrittenInOneOrder) {
  const Drills drills = parse_drills({"hang@a/s/1", "flip-nothing", "abort@a/s/0"});
  EXPECT_TRUE(drills.blind());
  EXPECT_EQ(drills.of("a/s/1"), record::Drill::hang);
  EXPECT_EQ(drills.of("a/s/2"), std::nullopt);
  EXPECT_EQ(to_json(drills), record::Json({"abort@a/s/0", "flip-nothing", "hang@a/s/1"}));
  for (const char* text : {"explode", "abort", "abort@", "flip-nothing@a/s/0", "hang a/s/0"}) {
    EXPECT_THAT(error_of([&] { static_cast<void>(parse_drills({text})); }),
                HasSubstr("expected flip-nothing"));
  }
  EXPECT_THAT(error_of([] {
                static_cast<void>(parse_drills({"abort@x/y/0", "hang@x/y/0"}));
              }),
              HasSubstr("has a drill already"));
}

class RowOf : public ::testing::Test {
 protected:
  static Ran ran(std::vector<std::string> altered, std::vector<std::string> loaded) {
    Ran ran;
    ran.spec.id = {"serial", "weight.sign", 0};
    for (auto& tensor : altered)
      ran.spec.faults.bits().append({tensor, "weight", 0, "float32", {31}, "sign", 0, 1});
    ran.altered = altered_tensors(ran.spec.faults.bits());
    ran.result = result("serial/weight.sign/0");
    ran.result->changed_tensors = std::move(loaded);
    return ran;
  }
};

TEST_F(RowOf, LandedMeansThatExactlyTheAlteredTensorsDiffer) {
  EXPECT_TRUE(row_of(ran({"a"}, {"a"}), 42, {}).landed);
  EXPECT_TRUE(row_of(ran({}, {}), 42, {}).landed);
  EXPECT_THAT(misbehaviour_of([] { static_cast<void>(row_of(ran({"a"}, {}), 42, {})); }),
              HasSubstr("did not land"));
  EXPECT_THAT(misbehaviour_of([] {
                static_cast<void>(row_of(ran({"a"}, {"a", "b"}), 42, {}));
              }),
              HasSubstr("a, b"));
  EXPECT_NE(misbehaviour_of([] { static_cast<void>(row_of(ran({}, {"b"}), 42, {})); }), "");
}

TEST_F(RowOf, WhatStoredBytesBehindFiltersBecomeNobodyCanSay) {
  for (const std::vector<std::string>& loaded : {std::vector<std::string>{}, {"a"}, {"a", "b"}}) {
    Ran packed = ran({"a"}, loaded);
    packed.spec.plane = record::Plane::storage;
    packed.spec.faults.bits().sites[0].plane = record::Plane::storage;
    packed.spec.faults.bits().sites[0].structure = "raw chunk 0 of /a";
    packed.altered = altered_tensors(packed.spec.faults.bits());
    const record::TrialRecord row = row_of(packed, 42, {});
    EXPECT_TRUE(row.landed);
    EXPECT_FALSE(row.no_change);
    EXPECT_TRUE(packed.altered.empty());
  }
  Ran plain = ran({"a"}, {});
  plain.spec.plane = plain.spec.faults.bits().sites[0].plane = record::Plane::storage;
  plain.spec.faults.bits().sites[0].structure = "raw data, contiguous";
  EXPECT_NE(misbehaviour_of([&] { static_cast<void>(row_of(plain, 42, {})); }), "");
}

TEST_F(RowOf, RejectedLoadsCanariesAndBlindDrillsAreKeptUnlanded) {
  Ran rejected = ran({"a"}, {});
  rejected.result->status = record::RunStatus::rejected;
  EXPECT_FALSE(row_of(rejected, 42, {}).landed);
  Ran canary = ran({"a"}, {});
  canary.spec.kind = record::TrialKind::canary;
  EXPECT_FALSE(row_of(canary, 0, {}).landed);
  EXPECT_FALSE(row_of(ran({"a"}, {}), 42, parse_drills({"flip-nothing"})).landed);
}

TEST_F(RowOf, JitterRunMustLandAndKeepsItsFaultsAndItsOrder) {
  Ran jitter = ran({"a"}, {"a"});
  jitter.spec.kind = record::TrialKind::jitter;
  jitter.spec.order = 1;
  const record::TrialRecord row = row_of(jitter, 0, {});
  EXPECT_TRUE(row.landed);
  EXPECT_FALSE(row.no_change);
  EXPECT_EQ(row.order, 1);
  EXPECT_EQ(row.faults, jitter.spec.faults);
  jitter.result->changed_tensors.clear();
  EXPECT_THAT(misbehaviour_of([&] { static_cast<void>(row_of(jitter, 0, {})); }), HasSubstr("did not land"));
}

TEST_F(RowOf, RunWithoutResultCountsAsLandedBecauseTheFileWasVerified) {
  Ran crashed = ran({"a"}, {});
  crashed.result.reset();
  crashed.failure = record::Failure{record::FailureReason::signal, "Aborted", 6};
  crashed.attempts = 2;
  const record::TrialRecord kept = row_of(crashed, 42, {});
  EXPECT_TRUE(kept.landed);
  EXPECT_EQ(kept.attempts, 2);
  EXPECT_EQ(kept.stratum_bits, 42U);
  EXPECT_FALSE(row_of(crashed, 42, parse_drills({"flip-nothing"})).landed);
}

}  // namespace
}  // namespace bitrift::campaign::golden_runs_test
