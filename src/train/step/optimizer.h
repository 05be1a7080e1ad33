// SGD, Adam and AdamW with the arithmetic of PyTorch's Python code. Inside train/ only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dataset/torch.h"
#include "spec/training_spec.h"
#include "train/fault/kill_point.h"

namespace bitrift::train {

/// One state tensor of an optimizer. In a checkpoint: optimizer/<name>/<key>.
struct OptimizerSlot {
  std::string name;  ///< momentum_buffer | exp_avg | exp_avg_sq | step
  std::string key;   ///< of the parameter
  torch::Tensor value;
};

/// The names that a spec's optimizer keeps for each parameter, and whether that tensor is a scalar. Scalars
/// are float32 on the CPU, as PyTorch keeps them; all other state has the parameter's shape, type and device.
/// Empty for SGD without momentum.
[[nodiscard]] std::vector<std::pair<std::string, bool>> optimizer_slots(const record::OptimizerSpec& spec);

/// Updates parameters from their gradients, one tensor after another, as torch/optim/sgd.py and adam.py of
/// PyTorch 2.13 do on the CPU (_single_tensor_sgd, _single_tensor_adam; AdamW is Adam with decoupled weight
/// decay). C++'s torch::optim::Adam rounds differently. The first step creates the state: SGD's first
/// momentum buffer is a copy of the gradient, not zeros times momentum plus gradient.
class Optimizer {
 public:
  struct Parameter {
    std::string key;
    torch::Tensor value;  ///< float64, float32, bfloat16 or float16, on any device; a leaf
  };
  /// held: whether this rank keeps the state of each parameter and updates it; empty: all of them.
  Optimizer(record::OptimizerSpec spec, std::vector<Parameter> parameters, std::vector<bool> held = {});

  /// Updates the parameters that are held. Throws Error(internal) when a parameter has no gradient; then
  /// nothing has changed.
  void step(double learning_rate, KillPoint* kill_point = nullptr);
  /// State tensors of the parameters that are held, by parameter, then by name; empty before the first step.
  [[nodiscard]] const std::vector<OptimizerSlot>& state() const noexcept { return state_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] bool holds(std::size_t parameter) const { return held_.empty() || held_[parameter]; }
  /// Whether state was made, even if no tensor of it is here.
  [[nodiscard]] bool has_state() const noexcept { return has_state_; }
  /// Makes the state tensors, zero-filled, for a load to fill; existing ones are kept.
  void allocate();
  /// Returns to the state before the first step.
  void clear() noexcept { state_.clear(), has_state_ = false; }

 private:
  void step_sgd(double learning_rate, KillPoint* kill_point);
  void step_adam(double learning_rate, KillPoint* kill_point);
  void reach(KillPoint* kill_point, std::size_t parameter) const;

  record::OptimizerSpec spec_;
  std::vector<Parameter> parameters_;
  std::vector<bool> held_;
  std::vector<OptimizerSlot> state_;
  bool has_state_ = false;
};

/// A number in the form in which Python's operators pass it on: `tensor.mul_(number(x))` has the bits of
/// Python's `tensor.mul_(x)`. The C++ overload for scalars, `tensor.mul_(x)`, swaps the operands, which
/// rounds x to a 16-bit tensor's type first.
[[nodiscard]] torch::Tensor number(double value);

/// The gradients of the parameters that have one, in order; they share memory with them.
[[nodiscard]] std::vector<torch::Tensor> gradients_of(const std::vector<Optimizer::Parameter>& parameters);

}  // namespace bitrift::train
