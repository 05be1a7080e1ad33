// A unit of a model at which it can be cut: pipeline stages consist of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataset/torch.h"
#include "nn/layer/pass.h"

namespace bitrift::nn {

/// The values of a new tensor's elements (docs/training.md, "Initial values").
struct Init {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double scale = 0;  ///< constant: the value; uniform: within +-scale; normal: the standard deviation
  [[nodiscard]] static Init constant(double value) { return {Kind::constant, value}; }
  [[nodiscard]] static Init normal(double deviation) { return {Kind::normal, deviation}; }
  /// PyTorch's default for linear and convolution layers: within +-1/sqrt(fan_in), for weights and biases.
  [[nodiscard]] static Init fan_in(std::int64_t count);
};

/// One tensor of a layer. Floating tensors have the type that build() is given.
struct Slot {
  std::string key = {};  ///< as in a state_dict: "conv1.weight"
  std::vector<std::int64_t> shape = {};
  Init init = {};
  bool trained = true;       ///< a parameter; false: a buffer
  bool counter = false;      ///< int64, starts at 0
  torch::Tensor value = {};  ///< undefined until build()
};

/// The place and type of tensors.
struct Placement {
  torch::ScalarType dtype = torch::kFloat32;  ///< of parameters and floating buffers
  torch::Device device = torch::kCPU;
};

/// Describes its tensors as soon as it is made; holds memory only after build().
class Layer {
 public:
  virtual ~Layer() = default;
  /// x: [batch, input_shape...]; returns [batch, output_shape...]. Needs build().
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& x, const Pass& pass) = 0;
  /// Whether an auxiliary head is attached to this layer's output.
  [[nodiscard]] virtual bool has_auxiliary() const { return false; }
  /// Logits [batch, classes] of the auxiliary head, from this layer's output. Called in training only.
  [[nodiscard]] virtual torch::Tensor auxiliary(const torch::Tensor& y, const Pass& pass);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::vector<Slot>& slots() const noexcept { return slots_; }
  /// Shapes of one sample.
  [[nodiscard]] const std::vector<std::int64_t>& input_shape() const noexcept { return input_shape_; }
  [[nodiscard]] const std::vector<std::int64_t>& output_shape() const noexcept { return output_shape_; }
  /// Multiply-adds of the forward pass of one sample: what a cut balances when nothing was measured.
  [[nodiscard]] std::int64_t cost() const noexcept { return cost_; }

  /// Allocates all tensors. With a seed they get their initial values: element i of tensor `key` is a pure
  /// function of (seed, key, i), so a stage starts with the same bits as the whole model. Without one they
  /// hold zeros, for a load to fill.
  void build(std::optional<std::uint64_t> seed, const Placement& placement);
  /// Returns to the state before build().
  void release() noexcept;

 protected:
  std::string name_;  ///< name of the unit: "layer1.0"
  std::vector<Slot> slots_;
  std::vector<std::int64_t> input_shape_, output_shape_;
  std::int64_t cost_ = 0;
};

}  // namespace bitrift::nn
