#include "train/optimizer.h"

#include <cmath>

namespace bitrift::train {

std::vector<std::pair<std::string, bool>> optimizer_slots(const record::OptimizerSpec& spec) {
  if (spec.name == "adam") return {{"exp_avg", false}, {"exp_avg_sq", false}, {"step", true}};
  if (spec.momentum != 0) return {{"momentum_buffer", false}};
  return {};
}

Optimizer::Optimizer(record::OptimizerSpec spec, std::vector<Parameter> parameters)
    : spec_(std::move(spec)), parameters_(std::move(parameters)) {}

void Optimizer::allocate() {
  if (!state_.empty()) return;
  for (const Parameter& parameter : parameters_) {
    for (const auto& [name, scalar] : optimizer_slots(spec_)) {
      const auto shape = scalar ? std::vector<std::int64_t>{} : parameter.value.sizes().vec();
      state_.push_back({name, parameter.key, torch::zeros(shape)});
    }
  }
}

void Optimizer::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  if (spec_.name == "adam") {
    step_adam(learning_rate);
  } else {
    step_sgd(learning_rate);
  }
}

void Optimizer::step_sgd(double learning_rate) {
  const bool first = spec_.momentum != 0 && state_.empty();
  if (first) allocate();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& parameter = parameters_[i].value;
    torch::Tensor gradient = parameter.grad();
    if (spec_.weight_decay != 0) gradient = gradient.add(parameter, spec_.weight_decay);
    if (spec_.momentum != 0) {
      torch::Tensor& buffer = state_[i].value;
      if (first) {
        buffer.copy_(gradient);
      } else {
        buffer.mul_(spec_.momentum).add_(gradient);
      }
      gradient = buffer;
    }
    parameter.add_(gradient, -learning_rate);
  }
}

void Optimizer::step_adam(double learning_rate) {
  allocate();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& parameter = parameters_[i].value;
    const torch::Tensor& gradient = parameter.grad();
    torch::Tensor& average = state_[3 * i].value;
    torch::Tensor& square = state_[3 * i + 1].value;
    torch::Tensor& counter = state_[3 * i + 2].value;
    counter.add_(1);
    average.lerp_(gradient, 1 - spec_.beta1);
    square.mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
    const auto step = static_cast<double>(counter.item<float>());
    const double correction1 = 1 - std::pow(spec_.beta1, step);
    const double correction2 = 1 - std::pow(spec_.beta2, step);
    // Python writes `** 0.5`, which is pow and not sqrt.
    const torch::Tensor denominator = (square.sqrt() / std::pow(correction2, 0.5)).add_(spec_.epsilon);
    parameter.addcdiv_(average, denominator, -(learning_rate / correction1));
  }
}

}  // namespace bitrift::train
