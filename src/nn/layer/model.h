// Models as sequences of layers, and the contiguous part of a model that a rank holds.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/layer/layer.h"
#include "spec/training_parts.h"

namespace bitrift::nn {

/// The input from which a model is made. Keys that a model does not use are ignored: the reader of a spec
/// refuses them.
struct ModelDescription {
  record::ModelName name = record::ModelName::mlp;
  std::vector<std::int64_t> hidden = {};  ///< mlp: widths of the hidden layers
  bool batch_norm = false;                ///< mlp: BatchNorm1d after each hidden linear layer
  std::vector<std::int64_t> input = {};   ///< shape of one sample: channels, height, width; or context
  std::int64_t classes = 0;               ///< labels, or tokens of the vocabulary
  bool small = false;                     ///< vision models: an eighth of all widths
  bool cifar_stem = false;                ///< resnet18, resnet50: 3x3 convolution, no pooling
  bool auxiliary = true;                  ///< googlenet: with auxiliary heads
  std::optional<double> dropout = {};     ///< probability of every dropout; none: as published
  int layers = 0, heads = 0;              ///< transformers: number of blocks, attention heads of each
  std::int64_t width = 0;                 ///< transformers: width of the embedding, a multiple of heads
  int kv_heads = 0;                       ///< llama: heads of keys and values, a divisor of heads; 0: heads
  std::int64_t feed_forward = 0;          ///< llama: inner width of the feed-forward part; 0: the usual one
  bool tied = false;                      ///< llama: the head uses the token embedding; whole models only
};

using Layers = std::vector<std::unique_ptr<Layer>>;

/// Multiply-adds of each layer for one sample.
[[nodiscard]] std::vector<double> estimated_costs(const std::vector<std::unique_ptr<Layer>>& layers);

/// Contiguous parts [first, last) of the layers, one for each stage: the cut whose costliest stage is
/// cheapest; among equal cuts, the one whose earliest stages end first. Throws Error(bad_input) when there
/// are more stages than layers.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> cut_layers(const std::vector<double>& costs,
                                                                          int stages);

/// The output of a forward pass of a stage.
struct StageOutput {
  torch::Tensor y;                       ///< [batch, output_shape...]
  std::vector<torch::Tensor> auxiliary;  ///< logits of the auxiliary heads in layer order; in training only
};

/// The weight of the loss of an auxiliary head, relative to the main one (Szegedy et al., CVPR 2015, section
/// 5).
inline constexpr double auxiliary_weight = 0.3;

/// A built contiguous part of a model; the whole model when there is one stage.
class Stage {
 public:
  /// Builds only layers [first, last) of `layers`, as Layer::build().
  Stage(std::vector<std::unique_ptr<Layer>> layers, std::size_t first, std::size_t last,
        std::optional<std::uint64_t> seed, const Placement& placement = {});

  /// x: [batch, input_shape...] of the first layer here.
  [[nodiscard]] StageOutput forward(torch::Tensor x, const Pass& pass);
  [[nodiscard]] const std::vector<std::int64_t>& input_shape() const {
    return layers_.front()->input_shape();
  }
  [[nodiscard]] const std::vector<std::int64_t>& output_shape() const {
    return layers_.back()->output_shape();
  }
  [[nodiscard]] const Placement& placement() const noexcept { return placement_; }
  [[nodiscard]] bool has_auxiliary() const;

  /// Tensors of this stage in layer order; `value` is the live tensor.
  [[nodiscard]] const std::vector<Slot>& slots() const noexcept { return slots_; }
  /// Tensors of the whole model in layer order; `value` is undefined.
  [[nodiscard]] const std::vector<Slot>& all_slots() const noexcept { return all_slots_; }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Slot> slots_, all_slots_;
  Placement placement_;
};

}  // namespace bitrift::nn
