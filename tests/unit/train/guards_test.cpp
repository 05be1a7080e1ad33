#include "train/guard/guards.h"

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
  guards.see_gradient_norm(infinite, progress);
  guards.see_state(session, 1);
  EXPECT_FALSE(guards.any());
  EXPECT_EQ(guards.count(), 0);
  EXPECT_EQ(progress.guard_losses.count, 0);
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
  EXPECT_NEAR(progress.guard_losses.mean, 16.5, 1e-12);
  guards.see_loss(48.5, progress);
  EXPECT_NEAR(progress.guard_losses.mean, 17.5, 1e-12);
}

TEST(Guards, GradientNormAlarmsAboveItsLimitOnRankZero) {
  record::GuardSpec on;
  on.gradient_norm = 5;
  Guards guards(spec_with(on), 0, false);
  Progress progress;
  guards.see_gradient_norm(5, progress);
  EXPECT_EQ(guards.count(), 0);
  guards.see_gradient_norm(std::nextafter(5.0, 6.0), progress);
  guards.see_gradient_norm(std::nan(""), progress);
  EXPECT_EQ(guards.count(), 2);
  Guards other(spec_with(on), 1, false);
  other.see_gradient_norm(6, progress);
  EXPECT_EQ(other.count(), 0);
  EXPECT_EQ(progress.guard_norms.count, 0);
}

TEST(Guards, AJumpIsAboveTheFactorTimesTheMeanOfTheNorms) {
  record::GuardSpec on;
  on.gradient_jump = 3;
  Guards guards(spec_with(on), 0, false);
  EXPECT_TRUE(guards.wants_gradient_norm());
  Progress progress;
  progress.step = 40;
  for (int i = 0; i < 7; ++i) guards.see_gradient_norm(2, progress);
  Progress early = progress;
  guards.see_gradient_norm(100, early);
  EXPECT_EQ(guards.count(), 0) << "seven norms make no judgement";
  guards.see_gradient_norm(2, progress);
  const Progress before = progress;
  guards.see_gradient_norm(6, progress);
  EXPECT_EQ(guards.count(), 0) << "equal to the limit is inside";
  progress = before;
  guards.see_gradient_norm(std::nextafter(6.0, 7.0), progress);
  ASSERT_EQ(guards.count(), 1);
  EXPECT_EQ(guards.alarms()[0].guard, record::Guard::gradient_jump);
  EXPECT_EQ(guards.alarms()[0].step, 41);
  EXPECT_EQ(guards.alarms()[0].limit, 6);
  progress = before;
  guards.see_gradient_norm(infinite, progress);
  EXPECT_EQ(guards.count(), 2);
  EXPECT_EQ(progress.guard_norms.count, 8) << "what is not finite does not enter the mean";
  Guards excused(spec_with(on), 0, true);
  excused.see_gradient_norm(infinite, progress);
  EXPECT_EQ(excused.count(), 0);
}

TEST(OutputRanges, AStepBeyondTheFactorDoesNotWidenTheRange) {
  OutputRanges ranges(2, false);
  const auto see = [&](double value) {
    const torch::Tensor y = torch::full({2, 3}, value);
    EXPECT_TRUE(ranges.output("fc", y).is_same(y));
    return ranges.end_step();
  };
  EXPECT_TRUE(see(infinite).empty()) << "nothing is known before the first step";
  EXPECT_TRUE(see(-100).empty()) << "and an infinite output is no range";
  EXPECT_TRUE(see(200).empty()) << "equal to the limit is inside";
  const auto found = see(-401);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].layer, "fc");
  EXPECT_EQ(found[0].value, 401);
  EXPECT_EQ(found[0].limit, 400);
  EXPECT_EQ(see(401).size(), 1U);
  EXPECT_EQ(see(std::nan("")).size(), 1U);
  EXPECT_EQ(see(infinite).size(), 1U);
  EXPECT_TRUE(see(400).empty());
  EXPECT_EQ(ranges.ranges.at("fc").before, 400);
}

TEST(OutputRanges, ClipsToTheLimitAndPassesNoGradientThere) {
  OutputRanges ranges(2, true);
  (void)ranges.output("fc", torch::ones({4}));
  (void)ranges.end_step();
  const torch::Tensor x =
      torch::tensor({1.5, -7.0, std::nan(""), infinite}, torch::kFloat32).requires_grad_(true);
  const torch::Tensor y = ranges.output("fc", x * 1);
  EXPECT_TRUE(torch::equal(y.detach(), torch::tensor({1.5F, -2.0F, 0.0F, 2.0F})));
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({1.0F, 0.0F, 0.0F, 0.0F})));
}

record::OptimizerSpec adam(double beta1, double beta2) {
  record::OptimizerSpec optimizer;
  optimizer.name = record::OptimizerName::adam;
  optimizer.beta1 = beta1;
  optimizer.beta2 = beta2;
  return optimizer;
}

// Adam's update without epsilon, in units of the learning rate, after these gradients.
double adam_update(const record::OptimizerSpec& optimizer, const std::vector<double>& gradients) {
  double m = 0, v = 0;
  for (const double g : gradients) {
    m = optimizer.beta1 * m + (1 - optimizer.beta1) * g;
    v = optimizer.beta2 * v + (1 - optimizer.beta2) * g * g;
  }
  const auto t = static_cast<double>(gradients.size());
  return std::abs(m / (1 - std::pow(optimizer.beta1, t)) / std::sqrt(v / (1 - std::pow(optimizer.beta2, t))));
}

TEST(LargestUpdate, IsReachedByTheWorstGradientsAndByNoOthers) {
  for (const auto& [beta1, beta2] : std::vector<std::pair<double, double>>{
           {0.9, 0.999}, {0.9, 0.99}, {0.9, 0.95}, {0.5, 0.3}, {0, 0.9}, {0.99, 0.9}}) {
    const record::OptimizerSpec optimizer = adam(beta1, beta2);
    for (const int t : {1, 2, 7, 100}) {
      const double most = largest_update(optimizer, t);
      // Equality in Cauchy and Schwarz: each gradient in proportion to (beta1 / beta2)^(t - i).
      std::vector<double> worst, others;
      for (int i = 1; i <= t; ++i) {
        worst.push_back(std::pow(beta2 > 0 && beta1 > 0 ? beta1 / beta2 : i == t ? 1 : 0, t - i));
        others.push_back(std::sin(static_cast<double>(37 * i)) *
                         std::exp(std::cos(static_cast<double>(i * i))));
      }
      if (beta1 == 0) worst.back() = 1;
      EXPECT_NEAR(adam_update(optimizer, worst), most, 1e-9 * most) << beta1 << " " << beta2 << " " << t;
      EXPECT_LE(adam_update(optimizer, others), most * (1 + 1e-12)) << beta1 << " " << beta2 << " " << t;
    }
  }
  EXPECT_NEAR(largest_update(adam(0.9, 0.999), 1), 1, 1e-12);
  EXPECT_NEAR(largest_update(adam(0.9, 0.999), 1'000'000), 7.2698, 1e-3);
  EXPECT_EQ(largest_update(adam(0, 0), 5), 1);
  EXPECT_EQ(largest_update(adam(0.9, 0), 5), infinite);
}

record::GuardSpec update_bound() {
  record::GuardSpec guards;
  guards.update_bound = true;
  return guards;
}

TEST(Guards, TheUpdateBoundNamesTheParameterThatMovedTooFar) {
  record::TrainingSpec spec = spec_with(update_bound());
  spec.optimizer.name = record::OptimizerName::adamw;
  spec.optimizer.weight_decay = 0.01;
  Session session = adam_session(spec);
  Optimizer& optimizer = session.optimizer();
  Guards guards(spec, 2, false);
  guards.before_update(optimizer);
  optimizer.step(0.1);
  guards.see_update(optimizer, 0.1, 2);
  EXPECT_EQ(guards.count(), 0) << "an update of Adam's own";
  const Optimizer::Parameter& one = optimizer.parameters()[1];
  const double limit = 1.1 * 0.1 * largest_update(spec.optimizer, 2);
  for (const double share : {0.99, 1.01}) {
    guards.before_update(optimizer);
    const torch::NoGradGuard no_grad;
    const double old = one.value.view(-1)[0].item<double>();
    one.value.view(-1)[0].fill_(old - limit * share - std::abs(old) * 0.1 * 0.01);
    guards.see_update(optimizer, 0.1, 2);
  }
  ASSERT_EQ(guards.count(), 1);
  EXPECT_EQ(guards.alarms()[0].tensor, "model/" + one.key);
  EXPECT_EQ(guards.alarms()[0].rank, 2);
  EXPECT_NEAR(guards.alarms()[0].limit, limit, 1e-12);
  guards.before_update(optimizer);
  put(first(session, "model/" + one.key), std::nan(""));
  guards.see_update(optimizer, 0.1, 2);
  EXPECT_EQ(guards.count(), 2) << "NaN is beyond every bound";
  const StateTensor other = first(session, "model/" + optimizer.parameters()[0].key);
  guards.before_update(optimizer);
  put(other, 7);
  guards.see_update(optimizer, 0, 2);
  EXPECT_EQ(guards.count(), 4) << "nothing may move without a learning rate, and one is NaN still";
}

TEST(Guards, AnUpdateJumpsAgainstTheMeanOfTheSizesOfItsParameter) {
  record::GuardSpec on;
  on.update_jump = 3;
  const record::TrainingSpec spec = spec_with(on);
  Session session = adam_session(spec);
  Optimizer& optimizer = session.optimizer();
  Guards guards(spec, 1, false);
  const Optimizer::Parameter& one = optimizer.parameters()[1];
  const torch::NoGradGuard no_grad;
  const auto move = [&](double size) {
    guards.before_update(optimizer);
    one.value.add_(size);
    guards.see_update(optimizer, 0.5, 9);
  };
  for (int i = 0; i < 7; ++i) move(0.25);
  EXPECT_EQ(guards.count(), 0);
  const Guards::Memory seven = guards.memory();
  move(64);
  EXPECT_EQ(guards.count(), 0) << "seven sizes make no judgement";
  guards.remember_again(seven);
  move(0.25);
  move(0.7);
  EXPECT_EQ(guards.count(), 0) << "2.8 times the mean";
  guards.remember_again(seven);
  move(0.25);
  move(0.8);
  ASSERT_EQ(guards.count(), 1);
  EXPECT_EQ(guards.alarms()[0].guard, record::Guard::update_jump);
  EXPECT_EQ(guards.alarms()[0].tensor, "model/" + one.key);
  EXPECT_NEAR(guards.alarms()[0].value, 1.6, 1e-4);
  EXPECT_NEAR(guards.alarms()[0].limit, 1.5, 1e-4);
  move(std::nan(""));
  EXPECT_EQ(guards.count(), 2);
}

TEST(Guards, FingerprintsNameEveryTensorThatChangedBetweenSteps) {
  record::GuardSpec on;
  on.fingerprints = true;
  const record::TrainingSpec spec = spec_with(on);
  Session session = adam_session(spec);
  Guards guards(spec, 0, false);
  guards.compare(session, 4);
  EXPECT_EQ(guards.count(), 0) << "nothing is known before the first step";
  guards.remember(session, 4);
  guards.compare(session, 4);
  EXPECT_EQ(guards.count(), 0);
  const StateTensor weight = first(session, "model/"), moment = first(session, "optimizer/exp_avg_sq/");
  put(weight, std::nextafter(weight.value.view(-1)[0].item<float>(), 2.0F));
  put(moment, 3);
  guards.compare(session, 3);
  EXPECT_EQ(guards.count(), 0) << "the state of another step";
  guards.compare(session, 4);
  ASSERT_EQ(guards.count(), 2);
  EXPECT_EQ(guards.alarms()[0].tensor, weight.meta.path);
  EXPECT_EQ(guards.alarms()[1].tensor, moment.meta.path);
  EXPECT_EQ(guards.alarms()[0].step, 5);
  guards.clear();
  guards.compare(session, 4);
  EXPECT_EQ(guards.count(), 0) << "a load changes everything";
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
