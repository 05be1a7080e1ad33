#include "train/step/optimizer.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::train::optimizer_test {
namespace {

record::OptimizerSpec sgd(double momentum, double weight_decay = 0) {
  record::OptimizerSpec spec;
  spec.momentum = momentum;
  spec.weight_decay = weight_decay;
  return spec;
}

record::OptimizerSpec adam(const char* name = "adam", double weight_decay = 0) {
  record::OptimizerSpec spec;
  spec.name = parse_named<record::OptimizerName>(name);
  spec.weight_decay = weight_decay;
  return spec;
}

// The textbook's Adam on one number, in double (Kingma and Ba, 2015, algorithm 1; Loshchilov and Hutter,
// 2019, algorithm 2 for the decoupled decay).
struct Textbook {
  record::OptimizerSpec spec;
  double value;
  double first = 0, second = 0;
  int steps = 0;
  void step(double gradient, double learning_rate) {
    ++steps;
    if (spec.name == record::OptimizerName::adamw) value -= learning_rate * spec.weight_decay * value;
    if (spec.name == record::OptimizerName::adam) gradient += spec.weight_decay * value;
    first = spec.beta1 * first + (1 - spec.beta1) * gradient;
    second = spec.beta2 * second + (1 - spec.beta2) * gradient * gradient;
    const double m = first / (1 - std::pow(spec.beta1, steps));
    const double v = second / (1 - std::pow(spec.beta2, steps));
    value -= learning_rate * m / (std::sqrt(v) + spec.epsilon);
  }
};

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

TEST(Sgd, MomentumIsNotRoundedToThe16BitTypeOfItsBuffer) {
  const torch::Tensor p = torch::zeros({1}, torch::kBFloat16).requires_grad_(true);
  Optimizer optimizer(sgd(0.9), {{"p", p}});
  for (const double gradient : {1.5, 0.0}) {
    p.mutable_grad() = torch::full({1}, gradient, torch::kBFloat16);
    optimizer.step(0);
  }
  // 1.5 * 0.9 = 1.35 rounds to 173/128; 0.9 as bfloat16 is 230/256, and 1.5 * 230/256 rounds to 172/128.
  EXPECT_EQ(optimizer.state()[0].value.item<float>(), 173.0F / 128);
}

TEST(Sgd, ALearningRateThatTheTypeCannotHoldIsRefusedAsInPython) {
  const torch::Tensor p = parameter({1});
  Optimizer optimizer(sgd(0), {{"p", p}});
  set_gradient(p, {1});
  EXPECT_THROW(optimizer.step(1e300), std::runtime_error);
  EXPECT_EQ(values_of(p), (std::vector<float>{1}));
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

TEST(Sgd, NesterovLooksAheadOfItsBuffer) {
  record::OptimizerSpec spec = sgd(0.5);
  spec.nesterov = true;
  const torch::Tensor p = parameter({1});
  Optimizer optimizer(spec, {{"p", p}});
  set_gradient(p, {2});
  optimizer.step(0.25);  // buffer 2, update 2 + 0.5 * 2
  EXPECT_EQ(values_of(p), (std::vector<float>{0.25F}));
  set_gradient(p, {1});
  optimizer.step(0.25);  // buffer 0.5 * 2 + 1, update 1 + 0.5 * 2
  EXPECT_EQ(values_of(p), (std::vector<float>{-0.25F}));
  EXPECT_EQ(values_of(optimizer.state()[0].value), (std::vector<float>{2}));
  EXPECT_EQ(values_of(p.grad()), (std::vector<float>{1})) << "the kept gradient is not the update";
}

TEST(Sgd, DecayEntersTheFirstMomentumBuffer) {
  const torch::Tensor p = parameter({4});
  Optimizer optimizer(sgd(0.5, 0.25), {{"p", p}});
  set_gradient(p, {1});
  optimizer.step(1);
  EXPECT_EQ(values_of(optimizer.state()[0].value), (std::vector<float>{2}));
}

TEST(Adam, FollowsTheTextbookWithEitherDecay) {
  for (const char* name : {"adam", "adamw"}) {
    for (const double decay : {0.0, 0.1}) {
      const record::OptimizerSpec spec = adam(name, decay);
      const torch::Tensor p = torch::full({1}, 0.75, torch::kFloat64).requires_grad_(true);
      Optimizer optimizer(spec, {{"p", p}});
      Textbook expected{spec, 0.75};
      for (const double gradient : {0.5, -0.25, 3.0, 0.0, 1e-3}) {
        p.mutable_grad() = torch::full({1}, gradient, torch::kFloat64);
        optimizer.step(0.01);
        expected.step(gradient, 0.01);
      }
      EXPECT_NEAR(p.item<double>(), expected.value, 1e-14) << name << " " << decay;
    }
  }
}

TEST(Adam, DecoupledDecayActsWithoutAGradientAndStaysOutOfTheMoments) {
  const torch::Tensor p = parameter({4});
  Optimizer optimizer(adam("adamw", 0.5), {{"p", p}});
  set_gradient(p, {0});
  optimizer.step(0.5);
  EXPECT_EQ(values_of(p), (std::vector<float>{3}));
  EXPECT_EQ(values_of(optimizer.state()[0].value), (std::vector<float>{0}));
  EXPECT_EQ(values_of(optimizer.state()[1].value), (std::vector<float>{0}));
}

TEST(Adam, ALoadedStepIsHonoured) {
  const torch::Tensor p = parameter({1});
  Optimizer optimizer(adam(), {{"p", p}});
  optimizer.allocate();
  optimizer.state()[2].value.fill_(-1);  // the next is step 0: both corrections are zero
  set_gradient(p, {1});
  optimizer.step(0.001);
  EXPECT_EQ(optimizer.state()[2].value.item<float>(), 0);
  EXPECT_FALSE(std::isfinite(values_of(p)[0]));
}

TEST(Optimizer, StateHasTheParametersTypeAndTheStepIsFloat32) {
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    for (const record::OptimizerSpec& spec : {sgd(0.9), adam(), adam("adamw", 0.01)}) {
      const torch::Tensor p = torch::ones({2, 3}, type).requires_grad_(true);
      Optimizer optimizer(spec, {{"p", p}});
      p.mutable_grad() = torch::ones({2, 3}, type);
      optimizer.step(0.5);
      EXPECT_EQ(p.scalar_type(), type);
      EXPECT_LT(p[1][2].item<float>(), 1);
      ASSERT_EQ(optimizer.state().size(), optimizer_slots(spec).size());
      for (const OptimizerSlot& slot : optimizer.state()) {
        EXPECT_EQ(slot.value.scalar_type(), slot.name == "step" ? torch::kFloat32 : type);
        EXPECT_EQ(slot.value.dim(), slot.name == "step" ? 0 : 2);
        EXPECT_TRUE(slot.value.is_contiguous());
        EXPECT_FALSE(slot.value.requires_grad());
      }
    }
  }
}

TEST(Optimizer, ParametersStayTrainableLeaves) {
  const torch::Tensor p = parameter({2});
  Optimizer optimizer(adam("adamw", 0.01), {{"p", p}});
  for (int i = 0; i < 2; ++i) {
    p.mutable_grad() = torch::Tensor();
    (p * p).sum().backward();
    optimizer.step(0.1);
    EXPECT_TRUE(p.is_leaf());
    EXPECT_TRUE(p.requires_grad());
  }
  EXPECT_LT(values_of(p)[0], 1.81F);
}

TEST(Optimizer, AMissingGradientIsNamedBeforeAnythingMoves) {
  const torch::Tensor p = parameter({1});
  const torch::Tensor q = parameter({1});
  Optimizer optimizer(sgd(0.9), {{"p", p}, {"layer.q", q}});
  set_gradient(p, {1});
  try {
    optimizer.step(1);
    FAIL() << "stepped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_THAT(error.what(), testing::HasSubstr("layer.q"));
  }
  EXPECT_EQ(values_of(p), (std::vector<float>{1}));
  EXPECT_TRUE(optimizer.state().empty());
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
}  // namespace bitrift::train::optimizer_test
