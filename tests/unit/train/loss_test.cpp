#include "train/step/loss.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace bitrift::train::loss_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Losses around ln(7), some of them for targets that nobody asks for.
struct Batch {
  torch::Tensor logits, targets;
  explicit Batch(torch::ScalarType type, std::vector<std::int64_t> shape = {64}) {
    torch::manual_seed(5);
    targets = torch::randint(7, shape, torch::kInt64);
    targets.view({-1}).slice(0, 0, torch::nullopt, 5).fill_(not_asked);
    shape.push_back(7);
    logits = torch::randn(shape, type) * 4;
  }
};

torch::Tensor each_loss(const Batch& batch) {
  return torch::cross_entropy_loss(batch.logits.flatten(0, -2), batch.targets.flatten(), {},
                                   torch::Reduction::None, not_asked);
}

TEST(LossSums, OfLossesIsTheSumOfPlainCrossEntropyToTheBit) {
  for (const torch::ScalarType type : {torch::kFloat32, torch::kFloat64}) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{64}, {4, 16}}) {
      const Batch batch(type, shape);
      const double plain = torch::cross_entropy_loss(batch.logits.flatten(0, -2), batch.targets.flatten(), {},
                                                     torch::Reduction::Sum, not_asked)
                               .item<double>();
      EXPECT_EQ(sum_losses(batch.logits, batch.targets).loss, plain);
    }
  }
}

TEST(LossSums, CapsTheLossOfEachTargetAtTheLogarithmOfTheClasses) {
  for (const torch::ScalarType type : {torch::kFloat32, torch::kFloat64}) {
    const Batch batch(type);
    const torch::Tensor losses = each_loss(batch).to(torch::kFloat64);
    double expected = 0;
    std::int64_t over = 0, under = 0;
    for (std::int64_t i = 0; i < losses.numel(); ++i) {
      const double loss = losses[i].item<double>();
      expected += std::min(loss, std::log(7.0));
      if (batch.targets[i].item<std::int64_t>() == not_asked) continue;
      (loss > std::log(7.0) ? over : under) += 1;
    }
    ASSERT_GT(std::min(over, under), 5);
    EXPECT_NEAR(sum_losses(batch.logits, batch.targets).capped, expected, 1e-12);
  }
}

TEST(LossSums, AnInfiniteLossCountsAsTheCapAndNaNStays) {
  const auto inf = static_cast<float>(infinity);
  const torch::Tensor targets = torch::tensor({1, 1}, torch::kInt64);
  const LossSums far = sum_losses(torch::tensor({{0.0F, -inf}, {0.0F, 0.0F}}), targets);
  EXPECT_EQ(far.loss, infinity);
  EXPECT_NEAR(far.capped, 2 * std::log(2.0), 1e-7);
  const torch::Tensor broken = torch::tensor({{0.0F, std::nanf("")}, {0.0F, 0.0F}});
  EXPECT_TRUE(std::isnan(sum_losses(broken, targets).capped));
  const torch::Tensor some = torch::tensor({static_cast<int>(not_asked), 1}, torch::kInt64);
  EXPECT_NEAR(sum_losses(broken, some).capped, std::log(2.0), 1e-7);
}

TEST(LossSums, LogitsOfSixteenBitsAreWidenedFirst) {
  Batch batch(torch::kFloat32);
  const torch::Tensor narrow = batch.logits.to(torch::kBFloat16);
  const LossSums sums = sum_losses(narrow, batch.targets);
  batch.logits = narrow.to(torch::kFloat32);
  EXPECT_EQ(sums.loss, sum_losses(batch.logits, batch.targets).loss);
  EXPECT_EQ(sums.capped, sum_losses(batch.logits, batch.targets).capped);
}

}  // namespace
}  // namespace bitrift::train::loss_test
