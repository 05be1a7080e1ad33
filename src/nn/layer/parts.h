// The parts of which layers are built. Inside nn/ only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/layer/layer.h"

namespace bitrift::nn {

/// Elements of a tensor of that shape.
[[nodiscard]] std::int64_t product(const std::vector<std::int64_t>& shape);

/// torch.nn.Linear. KEY.weight [outputs, inputs], KEY.bias [outputs] if it has one.
class Linear {
 public:
  Linear() = default;
  /// Adds its slots, PyTorch's default initial values unless others are given. bias: none: without one.
  Linear(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs, std::int64_t outputs);
  Linear(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs, std::int64_t outputs,
         const Init& weight, const std::optional<Init>& bias);
  [[nodiscard]] torch::Tensor operator()(const std::vector<Slot>& slots, const torch::Tensor& x) const;

 private:
  std::size_t first_ = 0;
  bool biased_ = true;
};

/// torch.nn.BatchNorm1d and 2d with PyTorch's momentum. KEY.weight, .bias, .running_mean, .running_var,
/// .num_batches_tracked.
class BatchNorm {
 public:
  BatchNorm() = default;
  BatchNorm(std::vector<Slot>& slots, const std::string& key, std::int64_t channels, double epsilon = 1e-5);
  /// Updates the running statistics in training.
  [[nodiscard]] torch::Tensor operator()(std::vector<Slot>& slots, const torch::Tensor& x,
                                         bool training) const;

 private:
  std::size_t first_ = 0;
  double epsilon_ = 1e-5;
};

}  // namespace bitrift::nn
