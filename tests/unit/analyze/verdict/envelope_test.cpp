#include "analyze/verdict/envelope.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::analyze::envelope_test {
namespace {

using record::Evaluation;
using Runs = std::vector<std::vector<Evaluation>>;

Evaluation evaluation(double train_loss, double train_accuracy, double test_loss, double test_accuracy) {
  return {1, 10, train_loss, train_accuracy, test_loss, test_accuracy};
}

ErrorCode code_of(const Runs& runs, double level = 0.99, std::size_t minimum = 20) {
  try {
    (void)make_envelope(runs, level, minimum);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Envelope, LimitsAreThePredictionLimitsOfATextbookSample) {
  // Five values 1..5: mean 3, s = sqrt(2.5), t(0.99, 4) = 3.7469473879791968, sqrt(1 + 1/5).
  const double margin = 3.7469473879791968 * std::sqrt(2.5) * std::sqrt(1.2);
  Runs runs;
  for (const double x : {1.0, 2.0, 3.0, 4.0, 5.0}) runs.push_back({evaluation(x, x / 10, 2 * x, x / 100)});
  const Envelope envelope = make_envelope(runs, 0.99, 5);
  ASSERT_EQ(envelope.size(), 1U);
  EXPECT_TRUE(envelope[0].has_train);
  EXPECT_NEAR(envelope[0].train_loss_max, 3 + margin, 1e-12);
  EXPECT_NEAR(envelope[0].train_accuracy_min, 0.3 - margin / 10, 1e-12);
  EXPECT_NEAR(envelope[0].test_loss_max, 6 + 2 * margin, 1e-12);
  EXPECT_NEAR(envelope[0].test_accuracy_min, 0.03 - margin / 100, 1e-12);
}

TEST(Envelope, EachEvaluationHasItsOwnLimits) {
  Runs runs;
  for (int i = 0; i < 20; ++i) {
    runs.push_back({evaluation(i % 2, 0.5, 1, 0.5), evaluation(0.25, 0.75, i % 2, 0.5)});
  }
  const Envelope envelope = make_envelope(runs);
  ASSERT_EQ(envelope.size(), 2U);
  // Ten zeros and ten ones: mean 0.5, s = sqrt(20 / 19) / 2, t(0.99, 19) = 2.5394831906239626.
  const double limit = 0.5 + 2.5394831906239626 * std::sqrt(20.0 / 19) / 2 * std::sqrt(1.05);
  EXPECT_NEAR(envelope[0].train_loss_max, limit, 1e-12);
  EXPECT_EQ(envelope[0].test_loss_max, 1);
  EXPECT_EQ(envelope[1].train_loss_max, 0.25);
  EXPECT_NEAR(envelope[1].test_loss_max, limit, 1e-12);
}

TEST(Envelope, EqualRunsGiveExactlyTheirValue) {
  // 0.1 is not a sum of twenty tenths over twenty, when added up naively.
  const Runs runs(20, {evaluation(0.1, 0.7, 1.0 / 3, 0.9)});
  const Envelope envelope = make_envelope(runs);
  EXPECT_EQ(envelope[0].train_loss_max, 0.1);
  EXPECT_EQ(envelope[0].train_accuracy_min, 0.7);
  EXPECT_EQ(envelope[0].test_loss_max, 1.0 / 3);
  EXPECT_EQ(envelope[0].test_accuracy_min, 0.9);
}

TEST(Envelope, EvaluationsBeforeAnyStepHaveNoTrainingLimits) {
  Evaluation at_load{1, 0, std::nullopt, std::nullopt, 0.5, 0.9};
  const Envelope envelope = make_envelope(Runs(20, {at_load}));
  EXPECT_FALSE(envelope[0].has_train);
}

TEST(Envelope, RefusesFewRunsUnequalLengthsAndNonFiniteMetrics) {
  const Evaluation clean = evaluation(0.1, 0.7, 0.3, 0.9);
  EXPECT_EQ(code_of(Runs(19, {clean})), ErrorCode::bad_input);
  EXPECT_EQ(code_of(Runs{}, 0.99, 0), ErrorCode::bad_input);
  EXPECT_EQ(code_of(Runs(1, {clean}), 0.99, 1), ErrorCode::bad_input);
  Runs unequal(20, {clean});
  unequal[7].push_back(clean);
  EXPECT_EQ(code_of(unequal), ErrorCode::bad_input);
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Runs broken(20, {clean});
    broken[3][0].test_loss = value;
    EXPECT_EQ(code_of(broken), ErrorCode::bad_input);
  }
  Runs partly(20, {clean});
  partly[3][0].train_loss.reset();
  EXPECT_EQ(code_of(partly), ErrorCode::bad_input);
  EXPECT_EQ(code_of(Runs(20, {clean}), 1.0), ErrorCode::bad_input);
}

}  // namespace
}  // namespace bitrift::analyze::envelope_test
