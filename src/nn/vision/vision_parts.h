// The parts of which the convolutional models are built. Inside nn/ only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/layer/model.h"
#include "nn/layer/parts.h"

namespace bitrift::nn {

using Shape = std::vector<std::int64_t>;

/// The number that a published number of channels or of hidden units becomes: an eighth of it, at least 1,
/// when the description asks for a small model.
[[nodiscard]] std::int64_t vision_width(const ModelDescription& model, std::int64_t published);

/// A square window that slides over an image, in a convolution or a max pooling.
struct Window {
  std::int64_t kernel = 1, stride = 1, padding = 0;
  bool ceil = false;  ///< pooling: a last window that sticks out counts, unless all of it is padding
};

/// The shape {channels, height, width} of the result of a window on an image {*, height, width}. An extent is
/// 0 where the window does not fit, and stays 0 under the windows after it.
[[nodiscard]] Shape slide(const Shape& image, std::int64_t channels, const Window& window);

[[nodiscard]] torch::Tensor max_pool(const torch::Tensor& x, const Window& window);

/// torch.nn.AdaptiveAvgPool2d(side). x: [batch, channels, height, width].
[[nodiscard]] torch::Tensor adaptive_pool(const torch::Tensor& x, std::int64_t side);
/// The same up to rounding, first over rows and then over columns, with a backward pass that always adds in
/// one order.
[[nodiscard]] torch::Tensor adaptive_pool_in_order(const torch::Tensor& x, std::int64_t side);

/// He et al., ICCV 2015, section 2.2, with the fan-out of an input: sqrt(2 / (outputs * kernel^2)).
[[nodiscard]] Init he_fan_out(std::int64_t outputs, std::int64_t kernel);

/// torch.nn.Conv2d, followed by torch.nn.BatchNorm2d if that has a key.
class Conv {
 public:
  struct Options {
    std::string key;                  ///< KEY.weight [outputs, inputs, kernel, kernel]
    std::string norm = {};            ///< of the batch normalisation; empty: none
    std::optional<Init> weight = {};  ///< none: he_fan_out
    std::optional<Init> bias = {};    ///< of KEY.bias [outputs]; none: this tensor does not exist
    double epsilon = 1e-5;            ///< of the batch normalisation
  };
  Conv() = default;
  /// Adds its slots. image: {channels, height, width} of its input.
  Conv(std::vector<Slot>& slots, const Options& options, const Shape& image, std::int64_t outputs,
       const Window& window);
  [[nodiscard]] torch::Tensor operator()(std::vector<Slot>& slots, const torch::Tensor& x,
                                         bool training) const;
  [[nodiscard]] const Shape& output_shape() const noexcept { return output_shape_; }
  /// Multiply-adds for one sample.
  [[nodiscard]] std::int64_t cost() const noexcept { return cost_; }

 private:
  std::size_t first_ = 0;
  Window window_;
  bool biased_ = false;
  std::optional<BatchNorm> norm_;
  Shape output_shape_;
  std::int64_t cost_ = 0;
};

/// Convolution with its batch normalisation, ReLU and, optionally, max pooling. Has the convolution's name.
class ConvUnit : public Layer {
 public:
  ConvUnit(const Conv::Options& options, const Shape& image, std::int64_t outputs, const Window& window,
           const std::optional<Window>& pool = {});
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x, const Pass& pass) override;

 private:
  Conv conv_;
  std::optional<Window> pool_;
};

/// Fully connected on the flattened sample, with the surrounding parts of these models' classifiers.
class LinearUnit : public Layer {
 public:
  struct Options {
    std::int64_t pool = 0;            ///< adaptive average pooling to this side comes first; 0: none
    bool relu = false;                ///< after the linear layer
    std::string dropout_before = {};  ///< key of a dropout module before the linear layer; empty: none
    std::string dropout_after = {};   ///< key of one after the ReLU
    double probability = 0;           ///< of dropout
    std::optional<Init> weight = {};  ///< none: PyTorch's default
    std::optional<Init> bias = {};
  };
  LinearUnit(const std::string& key, const Shape& input, std::int64_t outputs, const Options& options);
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x, const Pass& pass) override;

 private:
  Linear linear_;
  Options options_;
};

}  // namespace bitrift::nn
