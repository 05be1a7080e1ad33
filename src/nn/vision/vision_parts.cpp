#include "nn/vision/vision_parts.h"

#include <algorithm>
#include <cmath>

#include "nn/layer/max_pool.h"

namespace bitrift::nn {
namespace {

// As in pooling_output_shape of PyTorch (ATen/native/Pool.h); also for a convolution, which has no `ceil`.
std::int64_t extent(std::int64_t size, const Window& window) {
  const std::int64_t room = size + 2 * window.padding - window.kernel + (window.ceil ? window.stride - 1 : 0);
  if (room < 0) return 0;
  const std::int64_t count = room / window.stride + 1;
  const bool only_padding = window.ceil && (count - 1) * window.stride >= size + window.padding;
  return only_padding ? count - 1 : count;
}

}  // namespace

std::int64_t vision_width(const ModelDescription& model, std::int64_t published) {
  constexpr std::int64_t shrink = 8;
  return model.small ? std::max<std::int64_t>(1, published / shrink) : published;
}

Shape slide(const Shape& image, std::int64_t channels, const Window& window) {
  return {channels, extent(image[1], window), extent(image[2], window)};
}

torch::Tensor max_pool(const torch::Tensor& x, const Window& window) {
  if (window.kernel == 2 && window.stride == 2 && window.padding == 0 && !window.ceil) return max_pool_2x2(x);
  return torch::max_pool2d(x, window.kernel, window.stride, window.padding, 1, window.ceil);
}

torch::Tensor adaptive_pool(const torch::Tensor& x, std::int64_t side) {
  // For one output pixel, PyTorch takes the mean. Its CUDA kernel for other sizes adds gradients in no fixed
  // order, and is refused when deterministic algorithms are required.
  if (x.is_cuda() && side > 1) return adaptive_pool_in_order(x, side);
  return torch::adaptive_avg_pool2d(x, {side, side});
}

torch::Tensor adaptive_pool_in_order(const torch::Tensor& x, std::int64_t side) {
  torch::Tensor y = x;
  for (const std::int64_t dim : {2, 3}) {
    const std::int64_t size = x.size(dim);
    if (size == side) continue;
    std::vector<torch::Tensor> means;
    for (std::int64_t i = 0; i < side; ++i) {
      means.push_back(y.slice(dim, i * size / side, ((i + 1) * size + side - 1) / side).mean(dim, true));
    }
    y = torch::cat(means, dim);
  }
  return y;
}

Init he_fan_out(std::int64_t outputs, std::int64_t kernel) {
  return Init::normal(std::sqrt(2 / static_cast<double>(outputs * kernel * kernel)));
}

Conv::Conv(std::vector<Slot>& slots, const Options& options, const Shape& image, std::int64_t outputs,
           const Window& window)
    : first_(slots.size()),
      window_(window),
      biased_(options.bias.has_value()),
      output_shape_(slide(image, outputs, window)) {
  const std::int64_t side = window.kernel;
  slots.push_back({.key = options.key + ".weight",
                   .shape = {outputs, image[0], side, side},
                   .init = options.weight.value_or(he_fan_out(outputs, side))});
  if (biased_) slots.push_back({.key = options.key + ".bias", .shape = {outputs}, .init = *options.bias});
  if (!options.norm.empty()) norm_.emplace(slots, options.norm, outputs, options.epsilon);
  cost_ = product(output_shape_) * image[0] * side * side;
}

torch::Tensor Conv::operator()(std::vector<Slot>& slots, const torch::Tensor& x, bool training) const {
  torch::Tensor y = torch::conv2d(x, slots[first_].value, biased_ ? slots[first_ + 1].value : torch::Tensor(),
                                  window_.stride, window_.padding);
  return norm_ ? (*norm_)(slots, y, training) : y;
}

ConvUnit::ConvUnit(const Conv::Options& options, const Shape& image, std::int64_t outputs,
                   const Window& window, const std::optional<Window>& pool)
    : conv_(slots_, options, image, outputs, window), pool_(pool) {
  name_ = options.key;
  input_shape_ = image;
  output_shape_ = pool ? slide(conv_.output_shape(), outputs, *pool) : conv_.output_shape();
  cost_ = conv_.cost();
}

torch::Tensor ConvUnit::forward(const torch::Tensor& x, const Pass& pass) {
  torch::Tensor y = conv_(slots_, x, pass.training).relu_();
  return pool_ ? max_pool(y, *pool_) : y;
}

LinearUnit::LinearUnit(const std::string& key, const Shape& input, std::int64_t outputs,
                       const Options& options)
    : options_(options) {
  const std::int64_t inputs = options.pool > 0 ? input[0] * options.pool * options.pool : product(input);
  linear_ = Linear(slots_, key, inputs, outputs, options.weight.value_or(Init::fan_in(inputs)),
                   options.bias.value_or(Init::fan_in(inputs)));
  name_ = key;
  input_shape_ = input;
  output_shape_ = {outputs};
  cost_ = inputs * outputs;
}

torch::Tensor LinearUnit::forward(const torch::Tensor& x, const Pass& pass) {
  torch::Tensor y = x;
  if (options_.pool > 0) y = adaptive_pool(y, options_.pool);
  if (y.dim() > 2) y = y.flatten(1);
  if (!options_.dropout_before.empty()) y = dropout(y, options_.probability, options_.dropout_before, pass);
  y = linear_(slots_, y);
  if (options_.relu) y.relu_();
  if (!options_.dropout_after.empty()) y = dropout(y, options_.probability, options_.dropout_after, pass);
  return y;
}

}  // namespace bitrift::nn
