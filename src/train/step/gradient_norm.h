// The 2-norm of all gradients and their clipping, as torch.nn.utils.clip_grad_norm_. Inside train/ only.
#pragma once

#include <vector>

#include "train/step/optimizer.h"

namespace bitrift::train {

/// The 2-norm of each parameter's gradient, in order, rounded to the gradients' type and held in double. All
/// gradients have one type and device. A pipeline joins the norms of its stages in the order of the layers.
[[nodiscard]] std::vector<double> tensor_norms(const std::vector<Optimizer::Parameter>& parameters);

/// The 2-norm of norms, computed in `type`, the type of the gradients, on the CPU; 0 if there are none.
[[nodiscard]] double total_norm(const std::vector<double>& norms, torch::ScalarType type);

/// Multiplies all gradients by min(1, max_norm / (total + 1e-6)), computed in their type: NaN makes all of
/// them NaN, infinity makes finite ones zero. Parameters without a gradient are left out, here and in
/// tensor_norms().
void scale_gradients(const std::vector<Optimizer::Parameter>& parameters, double max_norm, double total);

}  // namespace bitrift::train
