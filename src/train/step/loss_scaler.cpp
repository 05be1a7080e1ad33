#include "train/step/loss_scaler.h"

#include <cmath>

namespace bitrift::train {
namespace {

// The defaults of torch.amp.GradScaler.
constexpr double kInitialScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

bool uses_fp16(const record::TrainingSpec& spec) {
  return spec.precision == record::Precision::fp16 || spec.precision == record::Precision::autocast_fp16;
}

}  // namespace

LossScaler::LossScaler(const record::TrainingSpec& spec) {
  const double wanted = spec.loss_scale.value_or(uses_fp16(spec) ? 0 : 1);
  if (!spec.loss_scale && !uses_fp16(spec)) return;
  kind_ = wanted == 0 ? Kind::dynamic : Kind::fixed;
  initial_ = wanted == 0 ? kInitialScale : wanted;
}

torch::Tensor LossScaler::scale(const torch::Tensor& loss, const Progress& progress) const {
  if (!active()) return loss;
  // Rounded here: LibTorch refuses a number beyond float32, which a flipped scale may be.
  const auto factor = static_cast<float>(progress.loss_scale);
  return loss * torch::full({}, factor, torch::dtype(torch::kFloat32).device(loss.device()));
}

bool LossScaler::unscale(const std::vector<Optimizer::Parameter>& parameters,
                         const Progress& progress) const {
  if (!active()) return true;
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return true;
  const auto options = torch::dtype(torch::kFloat32).device(gradients.front().device());
  const double scale = static_cast<float>(progress.loss_scale);
  const torch::Tensor inverse = torch::full({}, static_cast<float>(1 / scale), options);
  torch::Tensor bad = torch::zeros({}, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, bad, inverse);
  return bad.item<float>() == 0;
}

void LossScaler::update(bool found_bad, Progress& progress) const {
  if (!dynamic()) return;
  const double scale = static_cast<float>(progress.loss_scale);
  if (found_bad) {
    progress.loss_scale = static_cast<float>(scale * kBackoff);
    progress.growth_tracker = 0;
    return;
  }
  progress.loss_scale = scale;
  // Only the exact count makes the scale grow, as in PyTorch: a flipped tracker beyond it waits for the next
  // bad step.
  if (progress.growth_tracker != kGrowthInterval - 1) {
    const auto tracker = static_cast<std::uint64_t>(progress.growth_tracker) + 1;  // wraps, never overflows
    progress.growth_tracker = static_cast<std::int64_t>(tracker);
    return;
  }
  const auto grown = static_cast<float>(scale * kGrowth);
  if (std::isfinite(grown)) progress.loss_scale = grown;
  progress.growth_tracker = 0;
}

}  // namespace bitrift::train
