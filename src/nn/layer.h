// A cuttable unit of a model: what a pipeline stage is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace bitrift::nn {

/// One tensor of a layer. Parameters are float32; buffers are float32 or int64.
struct Slot {
  std::string key = {};  ///< as in a state_dict: "conv1.weight"
  std::vector<std::int64_t> shape = {};
  bool trained = true;  ///< a parameter; false: a buffer
  torch::ScalarType dtype = torch::kFloat32;
  std::int64_t fan_in = 0;  ///< > 0: drawn within +-1/sqrt(fan_in); 0: filled with `fill`
  double fill = 0;
  torch::Tensor value = {};  ///< undefined until build()
};

/// Describes its tensors as soon as it is made; holds memory only after build().
class Layer {
 public:
  virtual ~Layer() = default;
  /// x: [batch, input_shape...]; returns [batch, output_shape...]. `training` selects batch statistics, and
  /// updates running ones. Needs build().
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& x, bool training) = 0;

  [[nodiscard]] const std::vector<Slot>& slots() const noexcept { return slots_; }
  /// Shapes of one sample.
  [[nodiscard]] const std::vector<std::int64_t>& input_shape() const noexcept { return input_shape_; }
  [[nodiscard]] const std::vector<std::int64_t>& output_shape() const noexcept { return output_shape_; }
  /// Multiply-adds of the forward pass of one sample: what a balanced cut balances.
  [[nodiscard]] std::int64_t cost() const noexcept { return cost_; }

  /// Allocates and initialises all tensors. Element i of tensor `key` is a pure function of (seed, key, i)
  /// (docs/training.md), so a stage starts with the same bits as the whole model.
  void build(std::uint64_t seed);

 protected:
  [[nodiscard]] const torch::Tensor& value(std::size_t slot) const { return slots_[slot].value; }

  std::vector<Slot> slots_;
  std::vector<std::int64_t> input_shape_, output_shape_;
  std::int64_t cost_ = 0;
};

/// Convolution (5x5 and the like, zero padding, stride 1), ReLU, 2x2 max pooling. Keys KEY.weight, KEY.bias.
[[nodiscard]] std::unique_ptr<Layer> make_conv_block(const std::string& key,
                                                     const std::vector<std::int64_t>& input,
                                                     std::int64_t channels, std::int64_t kernel,
                                                     std::int64_t padding);

/// Fully connected on the flattened sample, then batch normalisation when norm_key is not empty, then ReLU
/// when `relu`.
[[nodiscard]] std::unique_ptr<Layer> make_dense(const std::string& key,
                                                const std::vector<std::int64_t>& input, std::int64_t outputs,
                                                const std::string& norm_key, bool relu);

}  // namespace bitrift::nn
