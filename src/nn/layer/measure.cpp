#include "nn/layer/measure.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

namespace bitrift::nn {
namespace {

// Training does not need the gradient of the first layer's input.
double time_once(Layer& layer, bool first, const torch::Tensor& input, const Pass& pass) {
  const auto began = std::chrono::steady_clock::now();
  torch::Tensor x = input.detach();
  if (!first && x.is_floating_point()) x.requires_grad_(true);
  torch::Tensor y = layer.forward(x, pass);
  torch::Tensor sum = y.sum();
  if (layer.has_auxiliary()) sum = sum + layer.auxiliary(y, pass).sum();
  sum.backward();
  if (x.is_cuda()) torch::cuda::synchronize(x.device().index());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

std::vector<double> measured_costs(const std::vector<std::unique_ptr<Layer>>& layers, std::int64_t rows,
                                   const Placement& placement) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(rows));
  std::iota(samples.begin(), samples.end(), 0);
  const Pass pass{.training = true, .samples = samples};
  std::vector<double> costs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = *layers[i];
    std::vector<std::int64_t> shape = layer.input_shape();
    shape.insert(shape.begin(), rows);
    // Tokens enter the first layer of a model of text; token 0 is in every vocabulary.
    const bool tokens = i == 0 && layer.input_shape().size() == 1 && layer.output_shape().size() == 2;
    const torch::Tensor input = torch::zeros(
        shape, torch::TensorOptions(tokens ? torch::kInt64 : placement.dtype).device(placement.device));
    layer.build(1, placement);
    double best = std::numeric_limits<double>::infinity();
    for (int turn = 0; turn < 4; ++turn) {
      const double seconds = time_once(layer, i == 0, input, pass);
      if (turn > 0) best = std::min(best, seconds);
    }
    layer.release();
    costs.push_back(best);
  }
  return costs;
}

}  // namespace bitrift::nn
