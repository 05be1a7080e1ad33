#include "train/run/guards.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "nn/make_layers.h"

namespace bitrift::train::guards_test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

record::TrainingSpec spec_with(const record::GuardSpec& guards) {
  record::TrainingSpec spec;
  spec.optimizer.name = record::OptimizerName::adam;
  spec.optimizer.learning_rate = 0.1;
  spec.batch_size = 64;
  spec.guards = guards;
  return spec;
}

record::GuardSpec nonfinite() {
  record::GuardSpec guards;
  guards.nonfinite = true;
  return guards;
}

record::GuardSpec moment_bound() {
  record::GuardSpec guards;
  guards.moment_bound = true;
  return guards;
}

record::GuardSpec loss_spike(double factor) {
  record::GuardSpec guards;
  guards.loss_spike = factor;
  return guards;
}

Session adam_session(const record::TrainingSpec& spec) {
  auto layers = nn::make_layers({.hidden = {8}, .batch_norm = true, .input = {1, 2, 2}, .classes = 2});
  const std::size_t count = layers.size();
  Session session(nn::Stage(std::move(layers), 0, count, 3), spec);
  const torch::Tensor x = torch::arange(16, torch::kFloat32).view({4, 1, 2, 2});
  torch::cross_entropy_loss(session.stage().forward(x, {.training = true}).y,
                            torch::tensor({0, 1, 1, 0}, torch::kInt64))
      .backward();
  session.optimizer().step(0.1);
  return session;
}

StateTensor first(Session& session, const std::string& prefix) {
  for (const StateTensor& tensor : session.tensors()) {
    if (tensor.meta.path.starts_with(prefix)) return tensor;
  }
  throw std::runtime_error("no tensor " + prefix);
}

void put(const StateTensor& tensor, double value) {
  const torch::NoGradGuard no_grad;
  tensor.value.view(-1)[0].fill_(value);
}

TEST(Guards, AreSilentWhenNoneIsOn) {
  const record::TrainingSpec spec = spec_with({});
  Guards guards(spec, 0, false);
  Progress progress;
  Session session = adam_session(spec);
  put(first(session, "model/"), infinite);
  guards.see_loss(infinite, progress);
  guards.see_gradient_norm(infinite, 1);
  guards.see_state(session, 1);
  EXPECT_FALSE(guards.any());
  EXPECT_EQ(guards.count(), 0);
  EXPECT_EQ(progress.guard_loss_count, 0);
}

TEST(Guards, NonfiniteNamesTheLossOfTheStepUnderWay) {
  Guards guards(spec_with(nonfinite()), 0, false);
  Progress progress;
  progress.step = 6;
  guards.see_loss(std::numeric_limits<double>::max(), progress);
  EXPECT_EQ(guards.count(), 0);
  guards.see_loss(infinite, progress);
  ASSERT_EQ(guards.count(), 1);
  EXPECT_EQ(guards.alarms()[0].step, 7);
  EXPECT_EQ(guards.alarms()[0].tensor, "");
}

TEST(Guards, NonfiniteLossIsExcusedUnderADynamicScaleAndStateIsNot) {
  const record::TrainingSpec spec = spec_with(nonfinite());
  Guards guards(spec, 0, true);
  Progress progress;
  guards.see_loss(infinite, progress);
  EXPECT_EQ(guards.count(), 0);
  Session session = adam_session(spec);
  put(first(session, "model/"), std::nan(""));
  guards.see_state(session, 1);
  EXPECT_EQ(guards.count(), 1);
}

TEST(Guards, NonfiniteNamesRankAndTensor) {
  const record::TrainingSpec spec = spec_with(nonfinite());
  Guards guards(spec, 3, false);
  Session session = adam_session(spec);
  guards.see_state(session, 1);
  EXPECT_EQ(guards.count(), 0);
  const StateTensor bad = first(session, "optimizer/exp_avg_sq/");
  put(bad, -infinite);
  guards.see_state(session, 2);
  ASSERT_EQ(guards.count(), 1);
  EXPECT_EQ(guards.alarms()[0].rank, 3);
  EXPECT_EQ(guards.alarms()[0].step, 2);
  EXPECT_EQ(guards.alarms()[0].tensor, bad.meta.path);
}

TEST(Guards, ASpikeIsAboveTheFactorTimesTheMeanAndNeedsEightLosses) {
  Guards guards(spec_with(loss_spike(2)), 0, false);
  Progress progress;
  for (int i = 0; i < 7; ++i) guards.see_loss(1, progress);
  Progress early = progress;
  guards.see_loss(100, early);
  EXPECT_EQ(guards.count(), 0) << "seven losses make no judgement";
  guards.see_loss(1, progress);
  Progress equal = progress;
  guards.see_loss(2, equal);
  EXPECT_EQ(guards.count(), 0) << "equal to the limit is inside";
  guards.see_loss(std::nextafter(2.0, 3.0), progress);
  ASSERT_EQ(guards.count(), 1);
  EXPECT_EQ(guards.alarms()[0].limit, 2);
}

TEST(Guards, TheMeanIsPlainFor32LossesAndThenForgets) {
  Guards guards(spec_with(loss_spike(1e9)), 0, false);
  Progress progress;
  for (int i = 1; i <= 32; ++i) guards.see_loss(i, progress);
  EXPECT_NEAR(progress.guard_loss_mean, 16.5, 1e-12);
  guards.see_loss(48.5, progress);
  EXPECT_NEAR(progress.guard_loss_mean, 17.5, 1e-12);
}

TEST(Guards, GradientNormAlarmsAboveItsLimitOnRankZero) {
  record::GuardSpec on;
  on.gradient_norm = 5;
  Guards guards(spec_with(on), 0, false);
  guards.see_gradient_norm(5, 1);
  EXPECT_EQ(guards.count(), 0);
  guards.see_gradient_norm(std::nextafter(5.0, 6.0), 2);
  guards.see_gradient_norm(std::nan(""), 3);
  EXPECT_EQ(guards.count(), 2);
  Guards other(spec_with(on), 1, false);
  other.see_gradient_norm(6, 1);
  EXPECT_EQ(other.count(), 0);
}

TEST(Guards, MomentBoundIsTwentyRootsOfTheElementsOverTheBatch) {
  const record::TrainingSpec spec = spec_with(moment_bound());
  Session session = adam_session(spec);
  const StateTensor moment = first(session, "optimizer/exp_avg/");
  const double limit = 20 * std::sqrt(static_cast<double>(moment.meta.elements())) / 64;
  Guards guards(spec, 0, false);
  put(moment, -limit * 0.999);
  guards.see_state(session, 1);
  EXPECT_EQ(guards.count(), 0);
  put(moment, -limit * 1.001);
  put(first(session, "optimizer/exp_avg_sq/"), limit * 2);
  guards.see_state(session, 2);
  ASSERT_EQ(guards.count(), 1) << "the second moment has no bound";
  EXPECT_EQ(guards.alarms()[0].tensor, moment.meta.path);
  EXPECT_DOUBLE_EQ(guards.alarms()[0].limit, limit);
}

TEST(Guards, KeepAHundredAlarmsAndCountAll) {
  Guards guards(spec_with(nonfinite()), 0, false);
  Progress progress;
  for (int i = 0; i < 130; ++i) guards.see_loss(infinite, progress);
  EXPECT_EQ(guards.alarms().size(), 100U);
  EXPECT_EQ(guards.count(), 130);
  guards.clear();
  EXPECT_EQ(guards.alarms().size(), 0U);
  EXPECT_EQ(guards.count(), 0);
}

}  // namespace
}  // namespace bitrift::train::guards_test
