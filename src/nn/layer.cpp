#include "nn/layer.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "core/philox.h"

namespace bitrift::nn {
namespace {

// PyTorch's defaults (torch.nn.BatchNorm1d).
constexpr double norm_momentum = 0.1;
constexpr double norm_epsilon = 1e-5;

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

class ConvBlock : public Layer {
 public:
  ConvBlock(const std::string& key, const std::vector<std::int64_t>& input, std::int64_t channels,
            std::int64_t kernel, std::int64_t padding)
      : padding_(padding) {
    const std::int64_t height = input[1] + 2 * padding - kernel + 1;
    const std::int64_t width = input[2] + 2 * padding - kernel + 1;
    const std::int64_t fan_in = input[0] * kernel * kernel;
    input_shape_ = input;
    output_shape_ = {channels, height / 2, width / 2};
    slots_.push_back(
        {.key = key + ".weight", .shape = {channels, input[0], kernel, kernel}, .fan_in = fan_in});
    slots_.push_back({.key = key + ".bias", .shape = {channels}, .fan_in = fan_in});
    cost_ = channels * height * width * fan_in;
  }

  torch::Tensor forward(const torch::Tensor& x, bool) override {
    return torch::max_pool2d(torch::relu(torch::conv2d(x, value(0), value(1), 1, padding_)), 2);
  }

 private:
  std::int64_t padding_;
};

class Dense : public Layer {
 public:
  Dense(const std::string& key, const std::vector<std::int64_t>& input, std::int64_t outputs,
        const std::string& norm_key, bool relu)
      : norm_(!norm_key.empty()), relu_(relu) {
    const std::int64_t inputs = product(input);
    input_shape_ = input;
    output_shape_ = {outputs};
    slots_.push_back({.key = key + ".weight", .shape = {outputs, inputs}, .fan_in = inputs});
    slots_.push_back({.key = key + ".bias", .shape = {outputs}, .fan_in = inputs});
    if (norm_) {
      slots_.push_back({.key = norm_key + ".weight", .shape = {outputs}, .fill = 1});
      slots_.push_back({.key = norm_key + ".bias", .shape = {outputs}});
      slots_.push_back({.key = norm_key + ".running_mean", .shape = {outputs}, .trained = false});
      slots_.push_back({.key = norm_key + ".running_var", .shape = {outputs}, .trained = false, .fill = 1});
      slots_.push_back({.key = norm_key + ".num_batches_tracked", .trained = false, .dtype = torch::kInt64});
    }
    cost_ = outputs * inputs;
  }

  torch::Tensor forward(const torch::Tensor& x, bool training) override {
    torch::Tensor y = torch::linear(x.dim() > 2 ? x.flatten(1) : x, value(0), value(1));
    if (norm_) {
      if (training) slots_[6].value.add_(1);
      y = torch::batch_norm(y, value(2), value(3), value(4), value(5), training, norm_momentum, norm_epsilon,
                            true);
    }
    return relu_ ? torch::relu(y) : y;
  }

 private:
  bool norm_, relu_;
};

void fill_uniform(const Slot& slot, std::uint64_t seed) {
  const std::uint64_t key = derive_key(seed, "init/" + slot.key);
  const double bound = 1 / std::sqrt(static_cast<double>(slot.fan_in));
  auto* data = slot.value.data_ptr<float>();
  const auto count = static_cast<std::uint64_t>(slot.value.numel());
  for (std::uint64_t i = 0; i < count; ++i) {
    data[i] = static_cast<float>((2 * random_unit(key, i, 0) - 1) * bound);
  }
}

}  // namespace

void Layer::build(std::uint64_t seed) {
  for (Slot& slot : slots_) {
    slot.value = torch::full(slot.shape, slot.fill, torch::TensorOptions(slot.dtype));
    if (slot.fan_in > 0) fill_uniform(slot, seed);
    if (slot.trained) slot.value.requires_grad_(true);
  }
}

std::unique_ptr<Layer> make_conv_block(const std::string& key, const std::vector<std::int64_t>& input,
                                       std::int64_t channels, std::int64_t kernel, std::int64_t padding) {
  return std::make_unique<ConvBlock>(key, input, channels, kernel, padding);
}

std::unique_ptr<Layer> make_dense(const std::string& key, const std::vector<std::int64_t>& input,
                                  std::int64_t outputs, const std::string& norm_key, bool relu) {
  return std::make_unique<Dense>(key, input, outputs, norm_key, relu);
}

}  // namespace bitrift::nn
