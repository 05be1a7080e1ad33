#include "analyze/classify.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze {
namespace {

using record::Evaluation;
using record::Outcome;
using record::OutcomeClass;
using record::Reason;
using record::TrialKind;
using record::TrialRecord;
using testing::evaluation;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Limits kLimits{1.0, 0.8, 0.5, 0.9, true};

// One letter an evaluation: what is outside. i: nothing; t: training loss; a: training accuracy; l: test
// loss; c: test accuracy; x: training and test accuracy; b: better than golden everywhere.
Evaluation evaluation_of(char letter, std::int64_t epoch) {
  Evaluation e = evaluation(epoch, 0.5, 0.9, 0.3, 0.95);
  if (letter == 't' || letter == 'x') e.train_loss = 2.0;
  if (letter == 'a') e.train_accuracy = 0.1;
  if (letter == 'l') e.test_loss = 2.0;
  if (letter == 'c' || letter == 'x') e.test_accuracy = 0.1;
  if (letter == 'b') e = evaluation(epoch, 0, 1, 0, 1);
  return e;
}

std::vector<Evaluation> trajectory(const std::string& letters) {
  std::vector<Evaluation> run;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    run.push_back(evaluation_of(letters[i], static_cast<std::int64_t>(i + 1)));
  }
  return run;
}

ArmControls controls(std::size_t evaluations, std::size_t replicas = 1) {
  ArmControls c;
  c.golden = {"golden", std::vector<std::string>(replicas, "golden"),
              trajectory(std::string(evaluations, 'i'))};
  c.envelope = Envelope(evaluations, kLimits);
  c.zero_step_golden = {"base", std::vector<std::string>(replicas, "base"), {evaluation(0, 0, 0, 0.4, 0.85)}};
  c.zero_step = {Limits{0, 0, 0.4, 0.85, false}};
  return c;
}

TrialRecord trial(const std::vector<std::vector<Evaluation>>& replicas, const std::string& digest = "other") {
  return testing::finished(TrialKind::trial, "serial", "weight.sign", 0, replicas, digest);
}

Outcome outcome_of(const std::string& letters) {
  return classify(trial({trajectory(letters)}), controls(letters.size()), "worst");
}

Reason reason_of(const std::string& letters) { return outcome_of(letters).reason; }

Reason reason_of_single(const Evaluation& e) { return classify(trial({{e}}), controls(1), "worst").reason; }

TEST(Classify, EachTrajectoryHasItsReason) {
  const std::vector<std::pair<std::string, Reason>> cases = {
      // one evaluation
      {"i", Reason::within_noise},
      {"b", Reason::within_noise},
      {"t", Reason::sharp_degrade},
      {"a", Reason::sharp_degrade},
      {"x", Reason::sharp_degrade},
      {"c", Reason::low_test_accuracy},
      {"l", Reason::degraded},
      // training outside all the way
      {"ttt", Reason::sharp_degrade},
      {"taxt", Reason::sharp_degrade},
      // training inside first, outside at the end
      {"it", Reason::slow_degrade},
      {"iit", Reason::slow_degrade},
      {"itt", Reason::slow_degrade},
      {"itit", Reason::slow_degrade},
      {"ltt", Reason::slow_degrade},
      {"cix", Reason::slow_degrade},
      {"bbt", Reason::slow_degrade},
      // final test accuracy outside, final training inside
      {"iic", Reason::low_test_accuracy},
      {"ccc", Reason::low_test_accuracy},
      {"ttc", Reason::low_test_accuracy},
      // any other final metric outside
      {"iil", Reason::degraded},
      {"lll", Reason::degraded},
      {"ttl", Reason::degraded},
      {"tit", Reason::degraded},
      {"titt", Reason::degraded},
      {"tix", Reason::degraded},
      // back inside
      {"iti", Reason::reconverged},
      {"tii", Reason::reconverged},
      {"xti", Reason::reconverged},
      {"lii", Reason::reconverged},
      {"icb", Reason::reconverged},
      // never outside
      {"iii", Reason::within_noise},
      {"bbb", Reason::within_noise},
  };
  for (const auto& [letters, reason] : cases) {
    EXPECT_STREQ(record::reason_name(reason_of(letters)), record::reason_name(reason)) << letters;
    EXPECT_FALSE(outcome_of(letters).bitwise_equal);
  }
}

TEST(Classify, RecoveryCountsStepsToTheEvaluationFromWhichAllIsInside) {
  EXPECT_EQ(outcome_of("tii").steps_to_recover, 2 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("iti").steps_to_recover, 3 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("tibclib").steps_to_recover, 6 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("iii").steps_to_recover, std::nullopt);
  EXPECT_EQ(outcome_of("iit").steps_to_recover, std::nullopt);
}

TEST(Classify, EqualToALimitIsInside) {
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, 0.8, 0.5, 0.9)), Reason::within_noise);
}

TEST(Classify, OneUlpBeyondALimitIsOutside) {
  EXPECT_EQ(reason_of_single(evaluation(1, std::nextafter(1.0, 2), 0.8, 0.5, 0.9)), Reason::sharp_degrade);
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, std::nextafter(0.8, 0), 0.5, 0.9)), Reason::sharp_degrade);
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, 0.8, std::nextafter(0.5, 1), 0.9)), Reason::degraded);
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, 0.8, 0.5, std::nextafter(0.9, 0))),
            Reason::low_test_accuracy);
}

TEST(Classify, BothTestMetricsOutsideIsLowTestAccuracy) {
  EXPECT_EQ(reason_of_single(evaluation(1, 0.5, 0.9, 3, 0.1)), Reason::low_test_accuracy);
}

TEST(Classify, FinalDigestDecidesBitwiseWhateverTheMetricsWere) {
  const Outcome outcome = classify(trial({trajectory("ttt")}, "golden"), controls(3), "worst");
  EXPECT_EQ(outcome.reason, Reason::bitwise);
  EXPECT_TRUE(outcome.bitwise_equal);
  EXPECT_EQ(outcome.outcome_class(), OutcomeClass::masked);
}

TEST(Classify, OneReplicaThatDiffersIsNotBitwise) {
  TrialRecord row = trial({trajectory("i"), trajectory("i")}, "golden");
  EXPECT_EQ(classify(row, controls(1, 2), "rank0").reason, Reason::bitwise);
  row.result->replica_digests[1] = "other";
  const Outcome outcome = classify(row, controls(1, 2), "rank0");
  EXPECT_EQ(outcome.reason, Reason::within_noise);
  EXPECT_FALSE(outcome.bitwise_equal);
}

TEST(Classify, AMissingDigestIsNeverBitwise) {
  ArmControls empty = controls(1);
  empty.golden.digest = "";
  empty.golden.replica_digests = {""};
  EXPECT_EQ(classify(trial({trajectory("i")}, ""), empty, "worst").reason, Reason::within_noise);
}

TEST(Classify, TheWorstReplicaCountsPerMetric) {
  const TrialRecord row = trial({trajectory("ii"), trajectory("ic")});
  EXPECT_EQ(classify(row, controls(2, 2), "worst").reason, Reason::low_test_accuracy);
  EXPECT_EQ(classify(row, controls(2, 2), "rank0").reason, Reason::within_noise);
  // Training outside in one replica first and in the other last: outside at every evaluation.
  const TrialRecord crossed = trial({trajectory("ti"), trajectory("it")});
  EXPECT_EQ(classify(crossed, controls(2, 2), "worst").reason, Reason::sharp_degrade);
  EXPECT_EQ(classify(crossed, controls(2, 2), "rank0").reason, Reason::reconverged);
  // A better second replica hides nothing.
  EXPECT_EQ(classify(trial({trajectory("l"), trajectory("b")}), controls(1, 2), "worst").reason,
            Reason::degraded);
}

TEST(Classify, StoppedAtANonFiniteLossIsACrash) {
  TrialRecord row = trial({trajectory("i")});
  row.result->status = "nonfinite";
  EXPECT_EQ(classify(row, controls(3), "worst").reason, Reason::nonfinite);
  row.result->replicas = {{}};
  EXPECT_EQ(classify(row, controls(3), "worst").reason, Reason::nonfinite);
  row.result->replicas = {};
  EXPECT_EQ(classify(row, controls(3), "worst").outcome_class(), OutcomeClass::crash);
}

TEST(Classify, ANonFiniteMetricOfAnyReplicaIsACrashUnderEitherJudge) {
  for (const double value : {kNan, kInf, -kInf}) {
    for (const char* judge : {"worst", "rank0"}) {
      TrialRecord row = trial({trajectory("iii"), trajectory("iii")});
      row.result->replicas[1][1].test_loss = value;
      EXPECT_EQ(classify(row, controls(3, 2), judge).reason, Reason::nonfinite);
      row = trial({trajectory("iii"), trajectory("iii")});
      row.result->replicas[1][0].train_loss = value;
      EXPECT_EQ(classify(row, controls(3, 2), judge).reason, Reason::nonfinite);
    }
  }
}

TEST(Classify, NonFiniteStateAloneIsNoCrash) {
  TrialRecord row = trial({trajectory("ii")});
  row.result->nonfinite_state = true;
  EXPECT_EQ(classify(row, controls(2), "worst").reason, Reason::within_noise);
  row.result->replicas[0] = trajectory("it");
  EXPECT_EQ(classify(row, controls(2), "worst").reason, Reason::slow_degrade);
}

TEST(Classify, NonFiniteComesBeforeBitwiseAndBothAreKept) {
  TrialRecord row = trial({trajectory("i")}, "golden");
  row.result->status = "nonfinite";
  const Outcome outcome = classify(row, controls(1), "worst");
  EXPECT_EQ(outcome.reason, Reason::nonfinite);
  EXPECT_TRUE(outcome.bitwise_equal);
}

TEST(Classify, FailuresKeepTheirReason) {
  const std::vector<std::pair<std::string, Reason>> cases = {
      {"exception", Reason::exception}, {"signal", Reason::signal}, {"hang", Reason::hang}};
  for (const auto& [name, reason] : cases) {
    TrialRecord row = testing::row(TrialKind::trial, "serial", "weight.sign", 0);
    row.failure = record::Failure{name, "detail", 0};
    const Outcome outcome = classify(row, controls(1), "worst");
    EXPECT_EQ(outcome.reason, reason);
    EXPECT_EQ(outcome.outcome_class(), OutcomeClass::crash);
    EXPECT_FALSE(outcome.bitwise_equal);
  }
}

TEST(Classify, RejectedComesFirst) {
  TrialRecord row = trial({{evaluation(1, kNan, 0, kNan, 0)}}, "golden");
  row.result->status = "rejected";
  EXPECT_EQ(classify(row, controls(1), "worst").reason, Reason::rejected);
  row.result->replicas.clear();
  EXPECT_EQ(classify(row, controls(1), "worst").reason, Reason::rejected);
}

TEST(Classify, CanariesAtLoadAreJudgedAgainstGoldenAtLoad) {
  const auto canary = [](double test_loss, double test_accuracy, const std::string& digest) {
    return testing::finished(TrialKind::canary, "serial", "canary:negate", 0,
                             {{evaluation(0, 0, 0, test_loss, test_accuracy)}}, digest);
  };
  EXPECT_EQ(classify(canary(0.4, 0.85, "other"), controls(3), "worst").reason, Reason::within_noise);
  EXPECT_EQ(classify(canary(0.4, std::nextafter(0.85, 0), "other"), controls(3), "worst").reason,
            Reason::low_test_accuracy);
  EXPECT_EQ(classify(canary(std::nextafter(0.4, 1), 0.85, "other"), controls(3), "worst").reason,
            Reason::degraded);
  EXPECT_EQ(classify(canary(0.4, 0.85, "base"), controls(3), "worst").reason, Reason::bitwise);
  EXPECT_EQ(classify(canary(0.4, 0.85, "golden"), controls(3), "worst").reason, Reason::within_noise);
}

TEST(Classify, ATrialThatTakesNoStepIsJudgedAgainstTheFullRun) {
  // Altered progress can leave nothing to train: that is the trial's outcome, not another yardstick.
  const TrialRecord row = trial({{evaluation(0, 0, 0, 0.4, 0.85)}}, "base");
  EXPECT_EQ(classify(row, controls(1), "worst").reason, Reason::low_test_accuracy);
}

TEST(Classify, AbsentTrainingMetricsCountAsInside) {
  Evaluation e = evaluation_of('l', 1);
  e.train_loss.reset();
  e.train_accuracy.reset();
  EXPECT_EQ(reason_of_single(e), Reason::degraded);
}

ErrorCode code_of(const TrialRecord& row, const ArmControls& arm, const std::string& judge = "worst") {
  try {
    (void)classify(row, arm, judge);
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
  both.failure = record::Failure{"hang", "", 0};
  EXPECT_EQ(code_of(both, controls(1)), ErrorCode::bad_file);
  TrialRecord failure = neither;
  failure.failure = record::Failure{"fire", "", 0};
  EXPECT_EQ(code_of(failure, controls(1)), ErrorCode::bad_file);
  TrialRecord status = trial({trajectory("i")});
  status.result->status = "fine";
  EXPECT_EQ(code_of(status, controls(1)), ErrorCode::bad_file);
  EXPECT_EQ(code_of(trial({}), controls(1)), ErrorCode::bad_file);
  EXPECT_EQ(code_of(trial({trajectory("ii"), trajectory("i")}), controls(2)), ErrorCode::bad_file);
  EXPECT_EQ(code_of(trial({trajectory("i")}), controls(1), "best"), ErrorCode::bad_input);
}

TEST(Judged, NanIsWorseThanAnyNumber) {
  const auto run = judged(
      testing::result({{evaluation(1, 1, 0.5, 3, 0.5)}, {evaluation(1, kNan, kNan, 2, kNan)}}, "d"), "worst");
  ASSERT_EQ(run.size(), 1U);
  EXPECT_TRUE(std::isnan(*run[0].train_loss));
  EXPECT_TRUE(std::isnan(*run[0].train_accuracy));
  EXPECT_TRUE(std::isnan(run[0].test_accuracy));
  EXPECT_EQ(run[0].test_loss, 3);
}

}  // namespace
}  // namespace bitrift::analyze
