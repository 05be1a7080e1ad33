#include "nn/layer/parts.h"

#include <functional>
#include <numeric>

namespace bitrift::nn {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Linear::Linear(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs, std::int64_t outputs)
    : Linear(slots, key, inputs, outputs, Init::fan_in(inputs), Init::fan_in(inputs)) {}

Linear::Linear(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs, std::int64_t outputs,
               const Init& weight, const std::optional<Init>& bias)
    : first_(slots.size()), biased_(bias.has_value()) {
  slots.push_back({.key = key + ".weight", .shape = {outputs, inputs}, .init = weight});
  if (bias) slots.push_back({.key = key + ".bias", .shape = {outputs}, .init = *bias});
}

torch::Tensor Linear::operator()(const std::vector<Slot>& slots, const torch::Tensor& x) const {
  // Autocast refuses an undefined tensor where there is no bias.
  const std::optional<torch::Tensor> bias = biased_ ? std::optional(slots[first_ + 1].value) : std::nullopt;
  return torch::linear(x, slots[first_].value, bias);
}

BatchNorm::BatchNorm(std::vector<Slot>& slots, const std::string& key, std::int64_t channels, double epsilon)
    : first_(slots.size()), epsilon_(epsilon) {
  slots.push_back({.key = key + ".weight", .shape = {channels}, .init = Init::constant(1)});
  slots.push_back({.key = key + ".bias", .shape = {channels}});
  slots.push_back({.key = key + ".running_mean", .shape = {channels}, .trained = false});
  slots.push_back(
      {.key = key + ".running_var", .shape = {channels}, .init = Init::constant(1), .trained = false});
  slots.push_back({.key = key + ".num_batches_tracked", .trained = false, .counter = true});
}

torch::Tensor BatchNorm::operator()(std::vector<Slot>& slots, const torch::Tensor& x, bool training) const {
  // PyTorch's default (torch.nn.BatchNorm2d).
  constexpr double momentum = 0.1;
  if (training) slots[first_ + 4].value.add_(1);
  return torch::batch_norm(x, slots[first_].value, slots[first_ + 1].value, slots[first_ + 2].value,
                           slots[first_ + 3].value, training, momentum, epsilon_, true);
}

}  // namespace bitrift::nn
