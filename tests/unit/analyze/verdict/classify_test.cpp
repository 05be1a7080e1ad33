#include "analyze/verdict/classify.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::classify_test {
namespace {

using record::Course;
using record::Evaluation;
using record::Metric;
using record::Outcome;
using record::OutcomeClass;
using record::Reason;
using record::TrialKind;
using record::TrialRecord;
using testing::evaluation;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Judging by(design::Judge judge) {
  Judging judging;
  judging.judge = judge;
  judging.metrics = {Metric::test_accuracy, Metric::test_capped_loss, Metric::train_accuracy,
                     Metric::train_loss};
  return judging;
}

const Judging kWorst = by(design::Judge::worst);
const Judging kRank0 = by(design::Judge::rank0);

// Clean run i of 99: all metrics lie a little apart, none of them beyond what any letter below means.
Evaluation clean_evaluation(std::size_t i, std::int64_t epoch) {
  const double away = 0.0001 * static_cast<double>(i);
  return evaluation(epoch, 0.5 + away, 0.9 - away, 0.3 + away, 0.95 - away);
}

// One letter an evaluation: what is outside. i: nothing; t: training loss; a: training accuracy; l: test
// loss; c: test accuracy; x: training and test accuracy; b: better than golden everywhere.
Evaluation evaluation_of(char letter, std::int64_t epoch) {
  Evaluation e = evaluation(epoch, 0.5, 0.9, 0.3, 0.95);
  if (letter == 't' || letter == 'x') e.train_loss = 2.0;
  if (letter == 'a') e.train_accuracy = 0.1;
  if (letter == 'l') e.test_loss = e.test_capped_loss.emplace(2.0);
  if (letter == 'c' || letter == 'x') e.test_accuracy = 0.1;
  if (letter == 'b') e = evaluation(epoch, 0.1, 1, 0.1, 1);
  return e;
}

Trajectory trajectory(const std::string& letters) {
  Trajectory run;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    run.push_back(evaluation_of(letters[i], static_cast<std::int64_t>(i + 1)));
  }
  return run;
}

Calibration calibration(std::size_t evaluations) {
  std::vector<Trajectory> clean(99);
  for (std::size_t run = 0; run < clean.size(); ++run) {
    for (std::size_t e = 0; e < evaluations; ++e)
      clean[run].push_back(clean_evaluation(run, static_cast<std::int64_t>(e + 1)));
  }
  return {clean, kWorst.metrics, 0.01, testing::kTargets};
}

ArmControls controls(std::size_t evaluations, std::size_t replicas = 1, std::size_t horizon = 0) {
  ArmControls c;
  c.golden = {
      {"golden", std::vector<std::string>(replicas, "golden"), trajectory(std::string(evaluations, 'i'))}};
  c.horizon = horizon == 0 ? evaluations : horizon;
  c.calibration = calibration(c.horizon);
  c.zero_step = {"base", std::vector<std::string>(replicas, "base"), {evaluation(0, 0, 0, 0.4, 0.85)}};
  return c;
}

TrialRecord trial(const std::vector<Trajectory>& replicas, const std::string& digest = "other") {
  return testing::finished(TrialKind::trial, "serial", "weight.sign", 0, replicas, digest);
}

Outcome outcome_of(const std::string& letters) {
  return classify(trial({trajectory(letters)}), controls(letters.size()), kWorst);
}

TEST(Classify, WhatIsOutsideAtTheHorizonIsTheReason) {
  const std::vector<std::pair<std::string, Reason>> cases = {
      {"i", Reason::within_noise},      {"b", Reason::within_noise},        {"c", Reason::low_test_accuracy},
      {"x", Reason::low_test_accuracy}, {"l", Reason::high_test_loss},      {"t", Reason::training_only},
      {"a", Reason::training_only},     {"ttc", Reason::low_test_accuracy}, {"ccl", Reason::high_test_loss},
      {"llt", Reason::training_only},   {"iti", Reason::reconverged},       {"xli", Reason::reconverged},
      {"icb", Reason::reconverged},     {"iii", Reason::within_noise},      {"bbb", Reason::within_noise},
  };
  for (const auto& [letters, reason] : cases) {
    const Outcome outcome = outcome_of(letters);
    EXPECT_STREQ(name_of(outcome.reason), name_of(reason)) << letters;
    EXPECT_FALSE(outcome.bitwise_equal);
    EXPECT_EQ(outcome.p_value.value() <= 0.01, outcome.outcome_class() == OutcomeClass::sdc) << letters;
  }
}

TEST(Classify, TheCourseIsOfAnSdcWithSeveralEvaluations) {
  const std::vector<std::pair<std::string, Course>> cases = {
      {"c", Course::none},       {"iii", Course::none},     {"cci", Course::none}, {"ctl", Course::sharp},
      {"iic", Course::slow},     {"icc", Course::slow},     {"ici", Course::none}, {"bil", Course::slow},
      {"cic", Course::relapsed}, {"liil", Course::relapsed}};
  for (const auto& [letters, course] : cases) EXPECT_EQ(outcome_of(letters).course, course) << letters;
}

TEST(Classify, RecoveryCountsStepsToTheEvaluationFromWhichAllIsInside) {
  EXPECT_EQ(outcome_of("tii").steps_to_recover, 2 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("iti").steps_to_recover, 3 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("tibclib").steps_to_recover, 6 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("iii").steps_to_recover, std::nullopt);
  EXPECT_EQ(outcome_of("iit").steps_to_recover, std::nullopt);
}

TEST(Classify, OnlyJudgedMetricsCount) {
  Judging accuracy = kWorst;
  accuracy.metrics = {Metric::test_accuracy};
  ArmControls c = controls(1);
  std::vector<Trajectory> clean;
  for (std::size_t i = 0; i < 99; ++i) clean.push_back({clean_evaluation(i, 1)});
  c.calibration.emplace(clean, accuracy.metrics, 0.01, testing::kTargets);
  EXPECT_EQ(classify(trial({trajectory("l")}), c, accuracy).reason, Reason::within_noise);
  EXPECT_EQ(classify(trial({trajectory("t")}), c, accuracy).reason, Reason::within_noise);
  EXPECT_EQ(classify(trial({trajectory("c")}), c, accuracy).reason, Reason::low_test_accuracy);
}

TEST(Classify, ATrialIsComparedWithTheGoldenRunOfItsOwnOrder) {
  ArmControls c = controls(1);
  // Order 1 is unlucky: its golden run lies where no clean run does.
  Trajectory unlucky = trajectory("i");
  unlucky[0].test_accuracy = 0.7;
  c.golden.push_back({"golden1", {"golden1"}, unlucky});
  TrialRecord row = trial({unlucky});
  EXPECT_EQ(classify(row, c, kWorst).reason, Reason::low_test_accuracy);
  row.order = 1;
  EXPECT_EQ(classify(row, c, kWorst).reason, Reason::within_noise);
  row.result->replicas[0][0].test_accuracy = 0.6;
  EXPECT_EQ(classify(row, c, kWorst).reason, Reason::low_test_accuracy);
  row.result->final_digest = row.result->replica_digests[0] = "golden1";
  EXPECT_EQ(classify(row, c, kWorst).reason, Reason::bitwise);
  row.order = 2;
  EXPECT_THROW((void)classify(row, c, kWorst), Error);
}

TEST(Classify, AHorizonLeavesOutWhatComesLater) {
  const ArmControls early = controls(3, 1, 2);
  EXPECT_EQ(classify(trial({trajectory("iic")}), early, kWorst).reason, Reason::within_noise);
  EXPECT_EQ(classify(trial({trajectory("ici")}), early, kWorst).reason, Reason::low_test_accuracy);
  EXPECT_EQ(classify(trial({trajectory("cii")}), early, kWorst).reason, Reason::reconverged);
  // Equal at the end, but nobody knows since when.
  EXPECT_EQ(classify(trial({trajectory("iii")}, "golden"), early, kWorst).reason, Reason::within_noise);
  TrialRecord back = trial({trajectory("iii")}, "golden");
  back.result->returned_step = 2 * testing::kStepsPerEpoch;
  EXPECT_EQ(classify(back, early, kWorst).reason, Reason::bitwise);
  back.result->returned_step = 2 * testing::kStepsPerEpoch + 1;
  EXPECT_EQ(classify(back, early, kWorst).reason, Reason::within_noise);
}

TEST(Classify, ACrashAfterTheHorizonDoesNotCount) {
  const ArmControls early = controls(3, 1, 2);
  for (const auto status : {record::RunStatus::nonfinite, record::RunStatus::rejected}) {
    TrialRecord row = trial({trajectory("ii")});
    row.result->status = status;
    EXPECT_EQ(classify(row, early, kWorst).reason, Reason::within_noise) << name_of(status);
    row.result->replicas = {trajectory("i")};
    EXPECT_EQ(classify(row, early, kWorst).outcome_class(), OutcomeClass::crash) << name_of(status);
    row.result->replicas = {trajectory("ii")};
    EXPECT_EQ(classify(row, controls(3), kWorst).outcome_class(), OutcomeClass::crash) << name_of(status);
    row.result->replicas = {trajectory("iii")};
    row.result->replicas[0][2].test_loss = kNan;
    EXPECT_EQ(classify(row, early, kWorst).reason, Reason::within_noise) << name_of(status);
    row.result->replicas[0][1].test_loss = kInf;
    EXPECT_EQ(classify(row, early, kWorst).outcome_class(), OutcomeClass::crash) << name_of(status);
  }
}

TEST(Classify, FinalDigestDecidesBitwiseWhateverTheMetricsWere) {
  const Outcome outcome = classify(trial({trajectory("ttt")}, "golden"), controls(3), kWorst);
  EXPECT_EQ(outcome.reason, Reason::bitwise);
  EXPECT_TRUE(outcome.bitwise_equal);
  EXPECT_EQ(outcome.outcome_class(), OutcomeClass::masked);
}

TEST(Classify, OneReplicaThatDiffersIsNotBitwise) {
  TrialRecord row = trial({trajectory("i"), trajectory("i")}, "golden");
  EXPECT_EQ(classify(row, controls(1, 2), kRank0).reason, Reason::bitwise);
  row.result->replica_digests[1] = "other";
  const Outcome outcome = classify(row, controls(1, 2), kRank0);
  EXPECT_EQ(outcome.reason, Reason::within_noise);
  EXPECT_FALSE(outcome.bitwise_equal);
}

TEST(Classify, AMissingDigestIsNeverBitwise) {
  ArmControls empty = controls(1);
  empty.golden[0].digest = "";
  empty.golden[0].replica_digests = {""};
  EXPECT_EQ(classify(trial({trajectory("i")}, ""), empty, kWorst).reason, Reason::within_noise);
}

TEST(Classify, TheWorstReplicaCountsPerMetric) {
  const TrialRecord row = trial({trajectory("ii"), trajectory("ic")});
  EXPECT_EQ(classify(row, controls(2, 2), kWorst).reason, Reason::low_test_accuracy);
  EXPECT_EQ(classify(row, controls(2, 2), kRank0).reason, Reason::within_noise);
  // Training outside in one replica first and in the other last: outside at every evaluation.
  const TrialRecord crossed = trial({trajectory("ti"), trajectory("it")});
  EXPECT_EQ(classify(crossed, controls(2, 2), kWorst).course, Course::sharp);
  EXPECT_EQ(classify(crossed, controls(2, 2), kRank0).reason, Reason::reconverged);
  // A better second replica hides nothing.
  EXPECT_EQ(classify(trial({trajectory("l"), trajectory("b")}), controls(1, 2), kWorst).reason,
            Reason::high_test_loss);
}

TEST(Classify, StoppedAtANonFiniteLossIsACrash) {
  TrialRecord row = trial({trajectory("i")});
  row.result->status = record::RunStatus::nonfinite;
  EXPECT_EQ(classify(row, controls(3), kWorst).reason, Reason::nonfinite);
  row.result->replicas = {{}};
  EXPECT_EQ(classify(row, controls(3), kWorst).reason, Reason::nonfinite);
  row.result->replicas = {};
  EXPECT_EQ(classify(row, controls(3), kWorst).outcome_class(), OutcomeClass::crash);
}

TEST(Classify, ANonFiniteMetricOfAnyReplicaIsACrashUnderEitherJudge) {
  for (const double value : {kNan, kInf, -kInf}) {
    for (const auto judge : {design::Judge::worst, design::Judge::rank0}) {
      TrialRecord row = trial({trajectory("iii"), trajectory("iii")});
      row.result->replicas[1][1].test_loss = value;
      EXPECT_EQ(classify(row, controls(3, 2), by(judge)).reason, Reason::nonfinite);
      row = trial({trajectory("iii"), trajectory("iii")});
      row.result->replicas[1][0].train_loss = value;
      EXPECT_EQ(classify(row, controls(3, 2), by(judge)).reason, Reason::nonfinite);
    }
  }
}

TEST(Classify, NonFiniteStateAloneIsNoCrash) {
  TrialRecord row = trial({trajectory("ii")});
  row.result->nonfinite_state = true;
  EXPECT_EQ(classify(row, controls(2), kWorst).reason, Reason::within_noise);
  row.result->replicas[0] = trajectory("it");
  EXPECT_EQ(classify(row, controls(2), kWorst).course, Course::slow);
}

TEST(Classify, NonFiniteComesBeforeBitwiseAndBothAreKept) {
  TrialRecord row = trial({trajectory("i")}, "golden");
  row.result->status = record::RunStatus::nonfinite;
  const Outcome outcome = classify(row, controls(1), kWorst);
  EXPECT_EQ(outcome.reason, Reason::nonfinite);
  EXPECT_TRUE(outcome.bitwise_equal);
}

TEST(Classify, FailuresKeepTheirReason) {
  using record::FailureReason;
  const std::vector<std::pair<FailureReason, Reason>> cases = {{FailureReason::exception, Reason::exception},
                                                               {FailureReason::signal, Reason::signal},
                                                               {FailureReason::hang, Reason::hang}};
  for (const auto& [cause, reason] : cases) {
    TrialRecord row = testing::row(TrialKind::trial, "serial", "weight.sign", 0);
    row.failure = record::Failure{cause, "detail", 0};
    const Outcome outcome = classify(row, controls(1), kWorst);
    EXPECT_EQ(outcome.reason, reason);
    EXPECT_EQ(outcome.outcome_class(), OutcomeClass::crash);
    EXPECT_FALSE(outcome.bitwise_equal);
  }
}

TEST(Classify, RejectedComesFirst) {
  TrialRecord row = trial({{evaluation(1, kNan, 0, kNan, 0)}}, "golden");
  row.result->status = record::RunStatus::rejected;
  EXPECT_EQ(classify(row, controls(1), kWorst).reason, Reason::rejected);
  row.result->replicas.clear();
  EXPECT_EQ(classify(row, controls(1), kWorst).reason, Reason::rejected);
}

TEST(Classify, CanariesAtLoadAreJudgedAgainstGoldenAtLoad) {
  const auto canary = [](double test_loss, double test_accuracy, const std::string& digest) {
    return testing::finished(TrialKind::canary, "serial", "canary:negate", 0,
                             {{evaluation(0, 0, 0, test_loss, test_accuracy)}}, digest);
  };
  EXPECT_EQ(classify(canary(0.4, 0.85, "other"), controls(3), kWorst).reason, Reason::within_noise);
  EXPECT_EQ(classify(canary(0.4, std::nextafter(0.85, 0), "other"), controls(3), kWorst).reason,
            Reason::low_test_accuracy);
  EXPECT_EQ(classify(canary(std::nextafter(0.4, 1), 0.85, "other"), controls(3), kWorst).reason,
            Reason::high_test_loss);
  EXPECT_EQ(classify(canary(0.4, 0.85, "base"), controls(3), kWorst).reason, Reason::bitwise);
  EXPECT_EQ(classify(canary(0.4, 0.85, "golden"), controls(3), kWorst).reason, Reason::within_noise);
}

TEST(Classify, ATrialThatTakesNoStepIsJudgedAgainstTheFullRun) {
  // Altered progress can leave nothing to train: that is the trial's outcome, not another yardstick.
  const TrialRecord row = trial({{evaluation(0, 0, 0, 0.4, 0.85)}}, "base");
  EXPECT_EQ(classify(row, controls(1), kWorst).reason, Reason::low_test_accuracy);
}

TEST(Classify, AbsentTrainingMetricsDoNotTakePart) {
  Trajectory run = trajectory("l");
  run[0].train_loss.reset();
  run[0].train_accuracy.reset();
  EXPECT_EQ(classify(trial({run}), controls(1), kWorst).reason, Reason::high_test_loss);
  run[0].test_capped_loss = 0.3;
  EXPECT_EQ(classify(trial({run}), controls(1), kWorst).reason, Reason::within_noise);
}

ErrorCode code_of(const TrialRecord& row, const ArmControls& arm,
                  design::Judge judge = design::Judge::worst) {
  try {
    (void)classify(row, arm, by(judge));
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Classify, AFinishedRunOfAnotherLengthIsRefused) {
  EXPECT_EQ(code_of(trial({trajectory("ii")}), controls(3)), ErrorCode::conflict);
  EXPECT_EQ(code_of(trial({trajectory("iiii")}), controls(3)), ErrorCode::conflict);
  EXPECT_EQ(code_of(trial({{}}), controls(3)), ErrorCode::conflict);
  // Even when its digest is golden's: nobody knows what was left out.
  EXPECT_EQ(code_of(trial({trajectory("ii")}, "golden"), controls(3)), ErrorCode::conflict);
}

TEST(Classify, RowsThatNoCampaignWritesAreRefused) {
  TrialRecord neither = testing::row(TrialKind::trial, "serial", "weight.sign", 0);
  EXPECT_EQ(code_of(neither, controls(1)), ErrorCode::bad_file);
  TrialRecord both = trial({trajectory("i")});
  both.failure = record::Failure{record::FailureReason::hang, "", 0};
  EXPECT_EQ(code_of(both, controls(1)), ErrorCode::bad_file);
  EXPECT_EQ(code_of(trial({}), controls(1)), ErrorCode::bad_file);
  EXPECT_EQ(code_of(trial({trajectory("ii"), trajectory("i")}), controls(2)), ErrorCode::bad_file);
}

TEST(Classify, RunThatLacksTheAccuracyOfItsGoldenRunIsNamed) {
  TrialRecord row = trial({trajectory("i")});
  row.result->final_digest = "other";
  row.result->replicas[0][0].test_accuracy.reset();
  EXPECT_EQ(code_of(row, controls(1)), ErrorCode::conflict);
  row.result->replicas[0][0].test_accuracy = 0.95;
  EXPECT_EQ(classify(row, controls(1), kWorst).reason, Reason::within_noise);
}

TEST(Judged, NanIsWorseThanAnyNumber) {
  const auto run =
      judged(testing::result({{evaluation(1, 1, 0.5, 3, 0.5)}, {evaluation(1, kNan, kNan, 2, kNan)}}, "d"),
             design::Judge::worst);
  ASSERT_EQ(run.size(), 1U);
  EXPECT_TRUE(std::isnan(*run[0].train_loss));
  EXPECT_TRUE(std::isnan(*run[0].train_accuracy));
  EXPECT_TRUE(std::isnan(*run[0].test_accuracy));
  EXPECT_EQ(run[0].test_loss, 3);
}

}  // namespace
}  // namespace bitrift::analyze::classify_test
