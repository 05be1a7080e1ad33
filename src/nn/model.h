// Models as sequences of layers, and the contiguous part of one that a rank holds.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/layer.h"

namespace bitrift::nn {

/// What a model is made from.
struct ModelDescription {
  std::string name;                  ///< lenet | mlp
  std::vector<std::int64_t> hidden;  ///< mlp: widths of the hidden layers
  bool batch_norm = false;           ///< mlp: BatchNorm1d after each hidden linear layer
  std::vector<std::int64_t> input;   ///< channels, height, width of one image
  std::int64_t classes = 0;
};

/// All layers, none built. lenet: conv1 (6, 5x5, pad 2), conv2 (16, 5x5, pad 2), each with ReLU and 2x2 max
/// pooling, fc1 (120), fc2 (84), fc3 (classes): LeCun et al. 1998 with ReLU and padding, so that it takes 8x8
/// and 28x28 images. mlp: fc1 .. fcK (hidden), ReLU, and the last linear layer to the classes. Throws
/// Error(bad_input): unknown name, or images too small.
[[nodiscard]] std::vector<std::unique_ptr<Layer>> make_layers(const ModelDescription& description);

/// Contiguous parts [first, last) of the layers, one for each stage: the cut whose costliest stage is
/// cheapest; among equals the one whose earliest stages end first. Throws Error(bad_input) when there are
/// more stages than layers.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> cut_layers(
    const std::vector<std::unique_ptr<Layer>>& layers, int stages);

/// A built contiguous part of a model; the whole model when there is one stage.
class Stage {
 public:
  /// Builds only layers [first, last) of `layers`.
  Stage(std::vector<std::unique_ptr<Layer>> layers, std::size_t first, std::size_t last, std::uint64_t seed);

  /// x: [batch, input_shape...] of the first layer here.
  [[nodiscard]] torch::Tensor forward(torch::Tensor x, bool training);
  [[nodiscard]] const std::vector<std::int64_t>& input_shape() const {
    return layers_.front()->input_shape();
  }
  [[nodiscard]] const std::vector<std::int64_t>& output_shape() const {
    return layers_.back()->output_shape();
  }

  /// Tensors of this stage in layer order; `value` is the live tensor.
  [[nodiscard]] const std::vector<Slot>& slots() const noexcept { return slots_; }
  /// Tensors of the whole model in layer order; `value` is undefined.
  [[nodiscard]] const std::vector<Slot>& all_slots() const noexcept { return all_slots_; }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Slot> slots_, all_slots_;
};

}  // namespace bitrift::nn
