#include "train/step/optimizer.h"

#include <cmath>

#include <ATen/ScalarOps.h>

#include "core/error.h"

namespace bitrift::train {

torch::Tensor number(double value) { return at::native::wrapped_scalar_tensor(value); }

std::vector<std::pair<std::string, bool>> optimizer_slots(const record::OptimizerSpec& spec) {
  if (spec.is_adam()) return {{"exp_avg", false}, {"exp_avg_sq", false}, {"step", true}};
  if (spec.momentum != 0) return {{"momentum_buffer", false}};
  return {};
}

Optimizer::Optimizer(record::OptimizerSpec spec, std::vector<Parameter> parameters, std::vector<bool> held)
    : spec_(spec), parameters_(std::move(parameters)), held_(std::move(held)) {}

void Optimizer::allocate() {
  if (has_state_) return;
  has_state_ = true;
  const torch::NoGradGuard no_grad;
  const auto slots = optimizer_slots(spec_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!holds(i)) continue;
    const Parameter& parameter = parameters_[i];
    for (const auto& [name, scalar] : slots) {
      state_.push_back({name, parameter.key,
                        scalar ? torch::zeros({}, torch::kFloat32)
                               : torch::zeros_like(parameter.value, {}, torch::MemoryFormat::Contiguous)});
    }
  }
}

void Optimizer::step(double learning_rate, KillPoint* kill_point) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.value.grad().defined()) continue;
    fail(ErrorCode::internal, "optimizer step: parameter {} has no gradient", parameter.key);
  }
  // Nothing here is differentiated, and a small model's step is mostly the cost of calling operators: this
  // skips the layers of the dispatcher that autograd needs.
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  if (spec_.is_adam()) {
    step_adam(learning_rate, kill_point);
  } else {
    step_sgd(learning_rate, kill_point);
  }
}

void Optimizer::reach(KillPoint* kill_point, std::size_t parameter) const {
  if (kill_point == nullptr) return;
  kill_point->reach(record::TrainingPhase::update, static_cast<std::int64_t>(parameter),
                    static_cast<std::int64_t>(parameters_.size()));
}

void Optimizer::step_sgd(double learning_rate, KillPoint* kill_point) {
  const bool first = spec_.momentum != 0 && !has_state_;
  if (first) allocate();
  const torch::Tensor momentum = number(spec_.momentum);
  auto state = state_.begin();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    reach(kill_point, i);
    if (!holds(i)) continue;
    torch::Tensor& parameter = parameters_[i].value;
    torch::Tensor gradient = parameter.grad();
    if (spec_.weight_decay != 0) gradient = gradient.add(parameter, spec_.weight_decay);
    if (spec_.momentum != 0) {
      torch::Tensor& buffer = (state++)->value;
      if (first) {
        buffer.copy_(gradient);
      } else {
        buffer.mul_(momentum).add_(gradient);
      }
      gradient = spec_.nesterov ? gradient.add(buffer, spec_.momentum) : buffer;
    }
    parameter.add_(gradient, -learning_rate);
  }
}

void Optimizer::step_adam(double learning_rate, KillPoint* kill_point) {
  allocate();
  const bool decoupled = spec_.name == record::OptimizerName::adamw;
  const torch::Tensor kept = number(1 - learning_rate * spec_.weight_decay);
  const torch::Tensor beta2 = number(spec_.beta2);
  const torch::Tensor epsilon = number(spec_.epsilon);
  auto state = state_.begin();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    reach(kill_point, i);
    if (!holds(i)) continue;
    torch::Tensor& parameter = parameters_[i].value;
    torch::Tensor gradient = parameter.grad();
    torch::Tensor& average = (state++)->value;
    torch::Tensor& square = (state++)->value;
    // In memory, without operators: add_ and item() of one number cost more than a small tensor's update.
    float& counter = *(state++)->value.mutable_data_ptr<float>();
    counter += 1;
    if (spec_.weight_decay != 0) {
      if (decoupled) {
        parameter.mul_(kept);
      } else {
        gradient = gradient.add(parameter, spec_.weight_decay);
      }
    }
    average.lerp_(gradient, 1 - spec_.beta1);
    square.mul_(beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
    const auto step = static_cast<double>(counter);
    const double correction1 = 1 - std::pow(spec_.beta1, step);
    const double correction2 = 1 - std::pow(spec_.beta2, step);
    // Python writes `** 0.5`, which is pow and not sqrt.
    const torch::Tensor denominator = square.sqrt().div_(std::pow(correction2, 0.5)).add_(epsilon);
    parameter.addcdiv_(average, denominator, -(learning_rate / correction1));
  }
}

std::vector<torch::Tensor> gradients_of(const std::vector<Optimizer::Parameter>& parameters) {
  std::vector<torch::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Optimizer::Parameter& parameter : parameters) {
    if (parameter.value.grad().defined()) gradients.push_back(parameter.value.grad());
  }
  return gradients;
}

}  // namespace bitrift::train
