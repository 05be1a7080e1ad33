#include "nn/small_models.h"

#include "core/error.h"
#include "nn/layer/max_pool.h"
#include "nn/layer/parts.h"

namespace bitrift::nn {
namespace {

// Convolution with bias, zero padding and stride 1, then ReLU, then 2x2 max pooling.
class ConvBlock : public Layer {
 public:
  ConvBlock(const std::string& key, const std::vector<std::int64_t>& input, std::int64_t channels,
            std::int64_t kernel, std::int64_t padding)
      : padding_(padding) {
    const std::int64_t height = input[1] + 2 * padding - kernel + 1;
    const std::int64_t width = input[2] + 2 * padding - kernel + 1;
    const std::int64_t fan_in = input[0] * kernel * kernel;
    name_ = key;
    input_shape_ = input;
    output_shape_ = {channels, height / 2, width / 2};
    slots_.push_back({.key = key + ".weight",
                      .shape = {channels, input[0], kernel, kernel},
                      .init = Init::fan_in(fan_in)});
    slots_.push_back({.key = key + ".bias", .shape = {channels}, .init = Init::fan_in(fan_in)});
    cost_ = channels * height * width * fan_in;
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass&) override {
    return max_pool_2x2(torch::relu(torch::conv2d(x, slots_[0].value, slots_[1].value, 1, padding_)));
  }

 private:
  std::int64_t padding_;
};

// Fully connected on the flattened sample, then batch normalisation when norm_key is not empty, then ReLU.
class Dense : public Layer {
 public:
  Dense(const std::string& key, const std::vector<std::int64_t>& input, std::int64_t outputs,
        const std::string& norm_key, bool relu)
      : linear_(slots_, key, product(input), outputs), normed_(!norm_key.empty()), relu_(relu) {
    name_ = key;
    input_shape_ = input;
    output_shape_ = {outputs};
    if (normed_) norm_ = BatchNorm(slots_, norm_key, outputs);
    cost_ = outputs * product(input);
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass& pass) override {
    torch::Tensor y = linear_(slots_, x.dim() > 2 ? x.flatten(1) : x);
    if (normed_) y = norm_(slots_, y, pass.training);
    return relu_ ? torch::relu(y) : y;
  }

 private:
  Linear linear_;
  BatchNorm norm_;
  bool normed_, relu_;
};

}  // namespace

Layers make_lenet(const ModelDescription& model) {
  if (model.input[1] < 4 || model.input[2] < 4) {
    fail(ErrorCode::bad_input, "model lenet needs images of at least 4x4 pixels, these have {}x{}",
         model.input[1], model.input[2]);
  }
  Layers layers;
  layers.push_back(std::make_unique<ConvBlock>("conv1", model.input, 6, 5, 2));
  layers.push_back(std::make_unique<ConvBlock>("conv2", layers.back()->output_shape(), 16, 5, 2));
  layers.push_back(std::make_unique<Dense>("fc1", layers.back()->output_shape(), 120, "", true));
  layers.push_back(std::make_unique<Dense>("fc2", layers.back()->output_shape(), 84, "", true));
  layers.push_back(std::make_unique<Dense>("fc3", layers.back()->output_shape(), model.classes, "", false));
  return layers;
}

Layers make_mlp(const ModelDescription& model) {
  Layers layers;
  std::vector<std::int64_t> shape = model.input;
  for (std::size_t i = 0; i <= model.hidden.size(); ++i) {
    const bool last = i == model.hidden.size();
    const std::string number = std::to_string(i + 1);
    layers.push_back(std::make_unique<Dense>("fc" + number, shape, last ? model.classes : model.hidden[i],
                                             model.batch_norm && !last ? "bn" + number : "", !last));
    shape = layers.back()->output_shape();
  }
  return layers;
}

}  // namespace bitrift::nn
