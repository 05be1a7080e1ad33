#include "train/step/loss_scaler.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace bitrift::train::loss_scaler_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

LossScaler scaler(const char* precision, std::optional<double> loss_scale = {}) {
  record::TrainingSpec spec;
  spec.precision = parse_named<record::Precision>(precision);
  spec.loss_scale = loss_scale;
  return LossScaler(spec);
}

Progress at_scale(double scale) {
  Progress progress;
  progress.loss_scale = scale;
  return progress;
}

std::vector<Optimizer::Parameter> with_gradient(const torch::Tensor& gradient) {
  const torch::Tensor value = torch::zeros_like(gradient).requires_grad_(true);
  value.mutable_grad() = gradient.clone();
  return {{"p", value}};
}

TEST(LossScaler, IsDynamicForTheFp16KindsUnlessToldOtherwise) {
  EXPECT_TRUE(scaler("fp16").dynamic());
  EXPECT_TRUE(scaler("autocast-fp16").dynamic());
  EXPECT_EQ(scaler("fp16").initial_scale(), 65536);
  for (const char* precision : {"fp32", "fp64", "bf16", "autocast-bf16"}) {
    EXPECT_FALSE(scaler(precision).active()) << precision;
    EXPECT_EQ(scaler(precision).initial_scale(), 1);
  }
  EXPECT_TRUE(scaler("fp32", 0).dynamic());
  EXPECT_TRUE(scaler("fp16", 128).active());
  EXPECT_FALSE(scaler("fp16", 128).dynamic());
  EXPECT_EQ(scaler("fp16", 128).initial_scale(), 128);
}

TEST(LossScaler, OffLooksAtNothing) {
  const LossScaler off = scaler("fp32");
  const torch::Tensor loss = torch::ones({});
  EXPECT_TRUE(off.scale(loss, at_scale(8)).is_same(loss));
  const auto parameters = with_gradient(torch::full({1}, kInfinity));
  EXPECT_TRUE(off.unscale(parameters, at_scale(8)));
  Progress progress = at_scale(8);
  off.update(true, progress);
  EXPECT_EQ(progress.loss_scale, 8);
}

TEST(LossScaler, A16BitLossBecomesFloat32) {
  const torch::Tensor loss = torch::full({}, 3, torch::kFloat16);
  const torch::Tensor scaled = scaler("fp16").scale(loss, at_scale(65536));
  EXPECT_EQ(scaled.scalar_type(), torch::kFloat32);
  EXPECT_EQ(scaled.item<float>(), 196608);
  EXPECT_TRUE(std::isinf(scaler("fp16").scale(loss, at_scale(1e300)).item<float>())) << "a flipped scale";
}

TEST(LossScaler, GoesBackThroughTheLossAndOutAgain) {
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    const torch::Tensor p = torch::full({2}, 0.5, type).requires_grad_(true);
    scaler("fp32", 1024).scale((p * p).sum(), at_scale(1024)).backward();
    EXPECT_EQ(p.grad()[1].item<float>(), 1024) << type;
    const bool fine = scaler("fp32", 1024).unscale({{"p", p}}, at_scale(1024));
    EXPECT_TRUE(fine);
    EXPECT_EQ(p.grad().scalar_type(), type);
    EXPECT_EQ(p.grad()[1].item<float>(), 1);
  }
}

TEST(LossScaler, Float16GradientsOverflowAtTheInitialScaleAndFitAtTheNext) {
  for (const auto& [scale, fine] : {std::pair(65536.0, false), std::pair(32768.0, true)}) {
    const torch::Tensor p = torch::ones({2}, torch::kFloat16).requires_grad_(true);
    scaler("fp16").scale(p.mean(), at_scale(scale)).backward();
    EXPECT_EQ(scaler("fp16").unscale({{"p", p}}, at_scale(scale)), fine) << scale;
  }
}

TEST(LossScaler, OneNonFiniteGradientAmongManyIsABadVerdict) {
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      auto parameters = with_gradient(torch::ones({40}, type));
      parameters.push_back(with_gradient(torch::ones({3, 7}, type))[0]);
      EXPECT_TRUE(scaler("fp16").unscale(parameters, at_scale(2)));
      parameters[1].value.grad()[2][6].fill_(bad);
      EXPECT_FALSE(scaler("fp16").unscale(parameters, at_scale(2))) << type << " " << bad;
    }
  }
  EXPECT_TRUE(scaler("fp16").unscale({}, at_scale(2)));
}

TEST(LossScaler, TheReciprocalIsRoundedToFloat32) {
  const auto parameters = with_gradient(torch::ones({1}, torch::kFloat64));
  EXPECT_TRUE(scaler("fp64", 3).unscale(parameters, at_scale(3)));
  EXPECT_EQ(parameters[0].value.grad().item<double>(), static_cast<double>(1.0F / 3.0F));
}

TEST(LossScaler, AFixedScaleStays) {
  Progress progress = at_scale(128);
  for (int i = 0; i < 2001; ++i) scaler("fp16", 128).update(i % 2 == 0, progress);
  EXPECT_EQ(progress.loss_scale, 128);
  EXPECT_EQ(progress.growth_tracker, 0);
}

TEST(LossScaler, HalvesAtOnceAndDoublesAfter2000GoodStepsInARow) {
  const LossScaler dynamic = scaler("fp16");
  Progress progress = at_scale(65536);
  dynamic.update(true, progress);
  EXPECT_EQ(progress.loss_scale, 32768);
  for (int i = 0; i < 1999; ++i) dynamic.update(false, progress);
  EXPECT_EQ(progress.loss_scale, 32768);
  EXPECT_EQ(progress.growth_tracker, 1999);
  dynamic.update(false, progress);
  EXPECT_EQ(progress.loss_scale, 65536);
  EXPECT_EQ(progress.growth_tracker, 0);
  for (int i = 0; i < 1999; ++i) dynamic.update(false, progress);
  dynamic.update(true, progress);
  EXPECT_EQ(progress.loss_scale, 32768);
  EXPECT_EQ(progress.growth_tracker, 0);
}

// torch.amp.GradScaler.update() is this operator.
TEST(LossScaler, MovesAsPyTorchsOperatorDoesFromAnyState) {
  const LossScaler dynamic = scaler("fp16");
  for (const float scale : {65536.0F, 1.0F, 3e38F, 1e-45F, 0.0F, -8.0F, 3.14159F, kInfinity, std::nanf("")}) {
    for (const int tracker : {0, 5, 1998, 1999, 2000, 100000, -1}) {
      for (const bool bad : {false, true}) {
        torch::Tensor expected = torch::full({}, scale);
        torch::Tensor expected_tracker = torch::full({}, tracker, torch::kInt32);
        at::_amp_update_scale_(expected, expected_tracker, torch::full({}, bad ? 1.0F : 0.0F), 2.0, 0.5,
                               2000);
        Progress progress = at_scale(scale);
        progress.growth_tracker = tracker;
        dynamic.update(bad, progress);
        const float wanted = expected.item<float>();
        EXPECT_TRUE(progress.loss_scale == wanted || (std::isnan(progress.loss_scale) && std::isnan(wanted)))
            << scale << " " << tracker << " " << bad << ": " << progress.loss_scale << ", not " << wanted;
        EXPECT_EQ(progress.growth_tracker, expected_tracker.item<int>()) << scale << " " << tracker;
      }
    }
  }
}

}  // namespace
}  // namespace bitrift::train::loss_scaler_test
