#include "analyze/verdict/limits_rule.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "unit/analyze/rows.h"

namespace bitrift::analyze::limits_rule_test {
namespace {

using record::Evaluation;
using record::Outcome;
using record::Reason;
using testing::evaluation;

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

Outcome outcome_of(const std::string& letters) {
  return judge_by_limits(trajectory(letters), Envelope(letters.size(), kLimits));
}

Reason reason_of(const std::string& letters) { return outcome_of(letters).reason; }

Reason reason_of_single(const Evaluation& e) { return judge_by_limits({e}, {kLimits}).reason; }

TEST(LimitsRule, EachTrajectoryHasItsReason) {
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
    EXPECT_STREQ(name_of(reason_of(letters)), name_of(reason)) << letters;
  }
}

TEST(LimitsRule, RecoveryCountsStepsToTheEvaluationFromWhichAllIsInside) {
  EXPECT_EQ(outcome_of("tii").steps_to_recover, 2 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("iti").steps_to_recover, 3 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("tibclib").steps_to_recover, 6 * testing::kStepsPerEpoch);
  EXPECT_EQ(outcome_of("iii").steps_to_recover, std::nullopt);
  EXPECT_EQ(outcome_of("iit").steps_to_recover, std::nullopt);
}

TEST(LimitsRule, EqualToALimitIsInside) {
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, 0.8, 0.5, 0.9)), Reason::within_noise);
}

TEST(LimitsRule, OneUlpBeyondALimitIsOutside) {
  EXPECT_EQ(reason_of_single(evaluation(1, std::nextafter(1.0, 2), 0.8, 0.5, 0.9)), Reason::sharp_degrade);
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, std::nextafter(0.8, 0), 0.5, 0.9)), Reason::sharp_degrade);
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, 0.8, std::nextafter(0.5, 1), 0.9)), Reason::degraded);
  EXPECT_EQ(reason_of_single(evaluation(1, 1.0, 0.8, 0.5, std::nextafter(0.9, 0))),
            Reason::low_test_accuracy);
}

TEST(LimitsRule, BothTestMetricsOutsideIsLowTestAccuracy) {
  EXPECT_EQ(reason_of_single(evaluation(1, 0.5, 0.9, 3, 0.1)), Reason::low_test_accuracy);
}

TEST(LimitsRule, AbsentTrainingMetricsCountAsInside) {
  Evaluation e = evaluation_of('l', 1);
  e.train_loss.reset();
  e.train_accuracy.reset();
  EXPECT_EQ(reason_of_single(e), Reason::degraded);
}

}  // namespace
}  // namespace bitrift::analyze::limits_rule_test
