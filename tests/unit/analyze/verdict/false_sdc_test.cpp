#include "analyze/verdict/false_sdc.h"

#include <gmock/gmock.h>

#include "analyze/verdict/resolution.h"
#include "analyze/verdict/trust.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::false_sdc_test {
namespace {

using record::TrialKind;
using record::TrialRecord;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Rows = std::vector<TrialRecord>;

void add(Rows& rows, TrialKind kind, double accuracy) {
  const auto draw = static_cast<std::uint64_t>(rows.size());
  rows.push_back(testing::finished(kind, "serial", name_of(kind), draw,
                                   {{evaluation(1, 0.1, 0.97, 0.2, accuracy)}}, "other"));
}

FalseSdc found(const Rows& rows) {
  return false_sdc_of(rows, "serial", controls_of(rows, Judging{}).at("serial"), Judging{});
}

TEST(FalseSdc, HeldOutAndJitterRunsAreJudgedLikeTrials) {
  Rows rows = clean_arm("serial");
  for (int i = 0; i < 5; ++i) add(rows, TrialKind::held_out, 0.95);
  add(rows, TrialKind::held_out, 0.1);
  add(rows, TrialKind::jitter, 0.95);
  add(rows, TrialKind::jitter, 0.2);
  rows.push_back(testing::row(TrialKind::jitter, "serial", "jitter", 99));
  rows.back().failure = record::Failure{record::FailureReason::hang, "", 0};
  const FalseSdc seen = found(rows);
  EXPECT_EQ(seen.held_out.runs, 6U);
  EXPECT_EQ(seen.held_out.called, 1U);
  EXPECT_EQ(seen.jitter.runs, 3U);
  EXPECT_EQ(seen.jitter.called, 2U) << "a crash of a harmless run is a false alarm too";
}

// scipy.stats.beta.ppf(confidence, k + 1, n - k)
TEST(FalseSdc, TheBoundIsOneSided) {
  EXPECT_NEAR(upper_bound({60, 0}, 0.95), 0.0487029, 1e-7);
  EXPECT_NEAR(upper_bound({60, 2}, 0.95), 0.1012359, 1e-7);
  EXPECT_EQ(upper_bound({0, 0}, 0.95), 1);
  EXPECT_EQ(upper_bound({3, 3}, 0.95), 1);
}

// scipy.stats.betabinom.sf(k - 1, m, 1, n)
TEST(FalseSdc, TheChanceOfACountIsBetaBinomial) {
  const Rows rows = clean_arm("serial");
  const auto controls = controls_of(rows, Judging{});
  const Calibration& calibration = *controls.at("serial").calibration;  // n = 20, r = 1
  EXPECT_EQ(chance_of({30, 0}, calibration), 1);
  // P(at least one) = 1 - 20/50; P(at least two) = 30 * 29 / (50 * 49).
  EXPECT_NEAR(chance_of({30, 1}, calibration), 0.6, 1e-12);
  EXPECT_NEAR(chance_of({30, 2}, calibration), 30.0 * 29 / (50 * 49), 1e-12);
}

TEST(FalseSdc, ACountThatContradictsTheLevelIsAProblem) {
  Rows rows = clean_arm("serial");
  for (int i = 0; i < 30; ++i) add(rows, TrialKind::jitter, i < 20 ? 0.5 : 0.95);
  const auto controls = controls_of(rows, Judging{});
  EXPECT_LT(chance_of({30, 20}, *controls.at("serial").calibration), contradiction);
  EXPECT_THAT(trust_of(rows, Judging{}).problems,
              ElementsAre(::testing::AllOf(HasSubstr("20 of 30"), HasSubstr("controls.orders"))));
  for (TrialRecord& row : rows) {
    if (row.kind == TrialKind::jitter && row.result->replicas[0][0].test_accuracy == 0.5 &&
        row.id.draw % 2 == 0)
      row.result->replicas[0][0].test_accuracy = 0.95;
  }
  EXPECT_THAT(trust_of(rows, Judging{}).problems, IsEmpty());
}

TEST(Resolution, IsTheSmallestHarmThatWouldBeAnSdc) {
  const Rows rows = clean_arm("serial");  // accuracies 0.950, 0.949, ..., 0.931 of 1,000; golden 0.950
  Judging judging;
  judging.metrics = {record::Metric::test_accuracy};
  ArmControls controls = controls_of(rows, judging).at("serial");
  EXPECT_DOUBLE_EQ(resolution_of(controls).at(record::Metric::test_accuracy).value(), 0.020);
  // A golden run in the tail is measured at the same distance as one at the median.
  CleanRun unlucky = controls.golden[0];
  unlucky.evaluations[0].test_accuracy = 0.9;
  controls.golden.push_back(unlucky);
  const double fall = resolution_of(controls).at(record::Metric::test_accuracy).value();
  const auto outside = [&](double accuracy) {
    Trajectory run = unlucky.evaluations;
    run[0].test_accuracy = accuracy;
    return !controls.calibration->rank(run, unlucky.evaluations).outside.back().empty();
  };
  EXPECT_DOUBLE_EQ(fall, 0.020) << "the largest of both orders";
  EXPECT_TRUE(outside(0.880));
  controls.golden.erase(controls.golden.begin());
  EXPECT_DOUBLE_EQ(resolution_of(controls).at(record::Metric::test_accuracy).value(), 0.010);
  EXPECT_TRUE(outside(0.890));
  EXPECT_FALSE(outside(0.891));
}

TEST(Resolution, OfACustomMetricIsInItsOwnUnit) {
  for (const record::Better better : {record::Better::lower, record::Better::higher}) {
    const record::Metric metric = record::CustomMetric{"score", better};
    const double sign = better == record::Better::lower ? -1000 : 1000;
    Rows rows = clean_arm("serial");
    for (TrialRecord& row : rows) {
      for (auto& replica : row.result->replicas) {
        for (record::Evaluation& one : replica) metric.set(one, sign * one.test_accuracy.value());
      }
    }
    const ArmControls both = controls_of(rows, Judging{}).at("serial");
    EXPECT_THAT(both.calibration->metrics(),
                ElementsAre(record::Metric(record::Metric::test_accuracy),
                            record::Metric(record::Metric::test_capped_loss), metric))
        << "what the program measures is judged by default";
    Judging judging;
    judging.metrics = {metric};
    const ArmControls controls = controls_of(rows, judging).at("serial");
    EXPECT_NEAR(resolution_of(controls).at(metric).value(), 19, 0.001) << "951 to 932 of 1,000 are clean";
    TrialRecord worse = rows.front();
    worse.kind = TrialKind::trial;
    worse.result->final_digest = "another";
    metric.set(worse.result->replicas[0].back(), sign * 0.5);
    EXPECT_EQ(classify(worse, controls, judging).reason, record::Reason::worse_metric);
    metric.set(worse.result->replicas[0].back(), sign * 0.99);
    EXPECT_EQ(classify(worse, controls, judging).outcome_class(), record::OutcomeClass::masked);
  }
}

TEST(Resolution, ACampaignCanBeBlind) {
  Rows rows = clean_arm("serial");
  double accuracy = 0;
  for (TrialRecord& row : rows) {
    if (row.kind == TrialKind::envelope) row.result->replicas[0][0].test_accuracy = accuracy += 0.05;
    if (row.kind == TrialKind::control && row.result->replicas[0][0].step > 0)
      row.result->replicas[0][0].test_accuracy = 0.05;
  }
  const auto controls = controls_of(rows, Judging{});
  EXPECT_EQ(resolution_of(controls.at("serial")).at(record::Metric::test_accuracy), std::nullopt);
  EXPECT_GT(resolution_of(controls.at("serial")).at(record::Metric::test_capped_loss).value(), 0);
}

}  // namespace
}  // namespace bitrift::analyze::false_sdc_test
