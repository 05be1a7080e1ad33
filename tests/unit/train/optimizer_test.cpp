#include "train/optimizer.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace bitrift::train {
namespace {

record::OptimizerSpec sgd(double momentum, double weight_decay = 0) {
  record::OptimizerSpec spec;
  spec.name = "sgd";
  spec.momentum = momentum;
  spec.weight_decay = weight_decay;
  return spec;
}

record::OptimizerSpec adam() {
  record::OptimizerSpec spec;
  spec.name = "adam";
  return spec;
}

torch::Tensor parameter(std::initializer_list<float> values) {
  return torch::tensor(std::vector<float>(values)).requires_grad_(true);
}

void set_gradient(const torch::Tensor& tensor, std::initializer_list<float> values) {
  tensor.mutable_grad() = torch::tensor(std::vector<float>(values));
}

std::vector<float> values_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST(Sgd, WithoutMomentumKeepsNoState) {
  const torch::Tensor p = parameter({1, 2});
  Optimizer optimizer(sgd(0), {{"p", p}});
  set_gradient(p, {1, -1});
  optimizer.step(0.5);
  EXPECT_EQ(values_of(p), (std::vector<float>{0.5F, 2.5F}));
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(Sgd, FirstMomentumBufferIsTheGradientWithItsSigns) {
  const torch::Tensor p = parameter({1, 2});
  Optimizer optimizer(sgd(0.5), {{"p", p}});
  EXPECT_TRUE(optimizer.state().empty());
  set_gradient(p, {-0.0F, 2});
  optimizer.step(1);
  ASSERT_EQ(optimizer.state().size(), 1U);
  EXPECT_EQ(optimizer.state()[0].name, "momentum_buffer");
  EXPECT_EQ(optimizer.state()[0].key, "p");
  EXPECT_TRUE(std::signbit(values_of(optimizer.state()[0].value)[0])) << "0 * momentum + (-0) would be +0";
  set_gradient(p, {0, 1});
  optimizer.step(1);
  EXPECT_EQ(values_of(optimizer.state()[0].value), (std::vector<float>{0, 2}));
  EXPECT_EQ(values_of(p), (std::vector<float>{1, -2}));
}

TEST(Sgd, WeightDecayEntersTheGradientNotTheOneThatIsKept) {
  const torch::Tensor p = parameter({4});
  Optimizer optimizer(sgd(0, 0.25), {{"p", p}});
  set_gradient(p, {1});
  optimizer.step(1);
  EXPECT_EQ(values_of(p), (std::vector<float>{2}));
  EXPECT_EQ(values_of(p.grad()), (std::vector<float>{1}));
}

TEST(Sgd, ALearningRateOfNaNIsHonoured) {
  const torch::Tensor p = parameter({1});
  Optimizer optimizer(sgd(0), {{"p", p}});
  set_gradient(p, {1});
  optimizer.step(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(values_of(p)[0]));
}

TEST(Adam, CountsItsStepsInFloatAndNamesItsSlots) {
  const torch::Tensor p = parameter({1, -1});
  Optimizer optimizer(adam(), {{"p", p}});
  for (int i = 0; i < 3; ++i) {
    set_gradient(p, {0.5F, -0.25F});
    optimizer.step(0.001);
  }
  ASSERT_EQ(optimizer.state().size(), 3U);
  EXPECT_EQ(optimizer.state()[0].name, "exp_avg");
  EXPECT_EQ(optimizer.state()[1].name, "exp_avg_sq");
  EXPECT_EQ(optimizer.state()[2].name, "step");
  EXPECT_EQ(optimizer.state()[2].value.dim(), 0);
  EXPECT_EQ(optimizer.state()[2].value.item<float>(), 3);
  // A constant gradient moves a parameter by the learning rate a step, against its sign.
  EXPECT_NEAR(values_of(p)[0], 0.997, 1e-6);
  EXPECT_NEAR(values_of(p)[1], -0.997, 1e-6);
}

TEST(Adam, AnInfiniteSecondMomentFreezesItsWeight) {
  const torch::Tensor p = parameter({1, 1});
  Optimizer optimizer(adam(), {{"p", p}});
  optimizer.allocate();
  optimizer.state()[1].value[0].fill_(std::numeric_limits<float>::infinity());
  set_gradient(p, {1, 1});
  optimizer.step(0.001);
  EXPECT_EQ(values_of(p)[0], 1);
  EXPECT_LT(values_of(p)[1], 1);
}

TEST(Optimizer, ClearForgetsEverything) {
  const torch::Tensor p = parameter({1});
  Optimizer optimizer(sgd(0.9), {{"p", p}});
  set_gradient(p, {std::numeric_limits<float>::quiet_NaN()});
  optimizer.step(0);
  optimizer.clear();
  EXPECT_TRUE(optimizer.state().empty());
  set_gradient(p, {1});
  optimizer.step(0);
  EXPECT_EQ(values_of(optimizer.state()[0].value), (std::vector<float>{1}));
}

}  // namespace
}  // namespace bitrift::train
