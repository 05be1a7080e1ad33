#include "train/step/gradient_norm.h"

namespace bitrift::train {

std::vector<double> tensor_norms(const std::vector<Optimizer::Parameter>& parameters) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return {};
  // One copy from the device for all of them.
  const torch::Tensor norms =
      torch::stack(at::_foreach_norm(gradients, 2.0)).to(torch::kCPU, torch::kFloat64);
  const double* first = norms.const_data_ptr<double>();
  return {first, first + norms.numel()};
}

double total_norm(const std::vector<double>& norms, torch::ScalarType type) {
  if (norms.empty()) return 0;
  return at::linalg_vector_norm(torch::tensor(norms, torch::kFloat64).to(type), 2.0).item<double>();
}

void scale_gradients(const std::vector<Optimizer::Parameter>& parameters, double max_norm, double total) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return;
  const torch::Tensor norm = torch::full({}, total, gradients.front().scalar_type());
  // Python evaluates `number / tensor` as the tensor's reciprocal times the number.
  const torch::Tensor factor = norm.add(1e-6).reciprocal().mul(number(max_norm)).clamp_max(1.0);
  // A factor of one changes no bit: if a gradient were NaN, the factor would be too.
  if (factor.item<double>() == 1) return;
  at::_foreach_mul_(gradients, factor.to(gradients.front().device()));
}

}  // namespace bitrift::train
