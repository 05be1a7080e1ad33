#include "train/step/gradient_norm.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace bitrift::train::gradient_norm_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Optimizer::Parameter> with_gradients(const std::vector<torch::Tensor>& gradients) {
  std::vector<Optimizer::Parameter> parameters;
  for (const torch::Tensor& gradient : gradients) {
    parameters.push_back({"p", torch::zeros_like(gradient).requires_grad_(true)});
    parameters.back().value.mutable_grad() = gradient.clone();
  }
  return parameters;
}

double total_of(const std::vector<Optimizer::Parameter>& parameters, torch::ScalarType type) {
  return total_norm(tensor_norms(parameters), type);
}

TEST(GradientNorm, IsTheNormOfTheTensorsNorms) {
  const auto parameters = with_gradients({torch::full({4}, 1.5), torch::full({2, 2}, -2.0)});
  EXPECT_EQ(tensor_norms(parameters), (std::vector<double>{3, 4}));
  EXPECT_EQ(total_norm({3, 4}, torch::kFloat32), 5);
  EXPECT_EQ(total_norm({}, torch::kFloat32), 0);
  EXPECT_EQ(tensor_norms({}), std::vector<double>{});
}

TEST(GradientNorm, IsRoundedToTheGradientsType) {
  EXPECT_EQ(total_norm({1, 1}, torch::kFloat64), std::sqrt(2.0));
  EXPECT_EQ(total_norm({1, 1}, torch::kFloat32), static_cast<double>(std::sqrt(2.0F)));
  EXPECT_EQ(total_norm({1, 1}, torch::kBFloat16), 1.4140625);
  EXPECT_EQ(total_norm({1, 1}, torch::kFloat16), 1.4140625);
  EXPECT_EQ(total_norm({60000, 60000}, torch::kFloat16), kInfinity);
}

TEST(GradientNorm, StagesJoinedGiveTheBitsOfTheWhole) {
  torch::manual_seed(5);
  const std::vector<torch::Tensor> gradients = {torch::randn({17}), torch::randn({3, 11}),
                                                torch::randn({5, 5})};
  std::vector<double> joined = tensor_norms(with_gradients({gradients[0]}));
  for (const double norm : tensor_norms(with_gradients({gradients[1], gradients[2]}))) joined.push_back(norm);
  EXPECT_EQ(joined, tensor_norms(with_gradients(gradients)));
}

TEST(ScaleGradients, BringsAGreaterNormDownAndLeavesASmallerOneAlone) {
  auto parameters = with_gradients({torch::full({4}, 30.0), torch::full({4}, 40.0)});
  scale_gradients(parameters, 200, total_of(parameters, torch::kFloat32));
  EXPECT_EQ(parameters[0].value.grad()[0].item<float>(), 30);
  scale_gradients(parameters, 1, total_of(parameters, torch::kFloat32));
  EXPECT_NEAR(parameters[0].value.grad()[0].item<float>(), 0.3, 1e-7);
  EXPECT_NEAR(parameters[1].value.grad()[3].item<float>(), 0.4, 1e-7);
  EXPECT_NEAR(total_of(parameters, torch::kFloat32), 1, 1e-6);
}

TEST(ScaleGradients, NaNSpreadsAndInfinityZeroesTheRest) {
  auto parameters = with_gradients({torch::ones({2}), torch::ones({1})});
  scale_gradients(parameters, 1, std::nan(""));
  EXPECT_TRUE(std::isnan(parameters[1].value.grad()[0].item<float>()));
  parameters = with_gradients({torch::tensor({1.0, kInfinity}, torch::kFloat32)});
  scale_gradients(parameters, 1, total_of(parameters, torch::kFloat32));
  EXPECT_EQ(parameters[0].value.grad()[0].item<float>(), 0);
  EXPECT_TRUE(std::isnan(parameters[0].value.grad()[1].item<float>()));
}

TEST(ScaleGradients, ParametersWithoutAGradientAreLeftOut) {
  auto parameters = with_gradients({torch::full({1}, 3.0), torch::full({1}, 4.0)});
  parameters.insert(parameters.begin(), {"frozen", torch::ones({9})});
  EXPECT_EQ(tensor_norms(parameters), (std::vector<double>{3, 4}));
  scale_gradients(parameters, 2.5, 5);
  EXPECT_FALSE(parameters[0].value.grad().defined());
  EXPECT_NEAR(parameters[2].value.grad().item<float>(), 2, 1e-6);
}

}  // namespace
}  // namespace bitrift::train::gradient_norm_test
