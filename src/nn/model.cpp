#include "nn/model.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace bitrift::nn {
namespace {

std::vector<std::unique_ptr<Layer>> make_lenet(const ModelDescription& model) {
  if (model.input[1] < 4 || model.input[2] < 4) {
    fail(ErrorCode::bad_input, "model lenet needs images of at least 4x4 pixels, these have {}x{}",
         model.input[1], model.input[2]);
  }
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(make_conv_block("conv1", model.input, 6, 5, 2));
  layers.push_back(make_conv_block("conv2", layers.back()->output_shape(), 16, 5, 2));
  layers.push_back(make_dense("fc1", layers.back()->output_shape(), 120, "", true));
  layers.push_back(make_dense("fc2", layers.back()->output_shape(), 84, "", true));
  layers.push_back(make_dense("fc3", layers.back()->output_shape(), model.classes, "", false));
  return layers;
}

std::vector<std::unique_ptr<Layer>> make_mlp(const ModelDescription& model) {
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<std::int64_t> shape = model.input;
  for (std::size_t i = 0; i <= model.hidden.size(); ++i) {
    const bool last = i == model.hidden.size();
    const std::string number = std::to_string(i + 1);
    layers.push_back(make_dense("fc" + number, shape, last ? model.classes : model.hidden[i],
                                model.batch_norm && !last ? "bn" + number : "", !last));
    shape = layers.back()->output_shape();
  }
  return layers;
}

}  // namespace

std::vector<std::unique_ptr<Layer>> make_layers(const ModelDescription& description) {
  if (description.name == "lenet") return make_lenet(description);
  if (description.name == "mlp") return make_mlp(description);
  fail(ErrorCode::bad_input, "there is no model '{}': use lenet or mlp", description.name);
}

std::vector<std::pair<std::size_t, std::size_t>> cut_layers(const std::vector<std::unique_ptr<Layer>>& layers,
                                                            int stages) {
  const std::size_t count = layers.size();
  const auto parts = static_cast<std::size_t>(stages);
  if (stages < 1 || parts > count) {
    fail(ErrorCode::bad_input,
         "a pipeline of {} stages cannot be cut from a model of {} layers: use 1 to {} ranks", stages, count,
         count);
  }
  // best[p][i]: the lowest possible cost of the costliest stage when layers [i, count) make p stages.
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::vector<std::vector<std::int64_t>> best(parts + 1, std::vector<std::int64_t>(count + 1, never));
  best[0][count] = 0;
  for (std::size_t p = 1; p <= parts; ++p) {
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t cost = 0;
      for (std::size_t end = i + 1; end <= count; ++end) {
        cost += layers[end - 1]->cost();
        best[p][i] = std::min(best[p][i], std::max(cost, best[p - 1][end]));
      }
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> cuts;
  std::size_t first = 0;
  for (std::size_t p = parts; p > 0; --p) {
    std::int64_t cost = 0;
    std::size_t end = first;
    do {
      cost += layers[end++]->cost();
    } while (std::max(cost, best[p - 1][end]) > best[parts][0]);
    cuts.emplace_back(first, end);
    first = end;
  }
  return cuts;
}

Stage::Stage(std::vector<std::unique_ptr<Layer>> layers, std::size_t first, std::size_t last,
             std::uint64_t seed) {
  for (const auto& layer : layers)
    all_slots_.insert(all_slots_.end(), layer->slots().begin(), layer->slots().end());
  for (std::size_t i = first; i < last; ++i) {
    layers[i]->build(seed);
    slots_.insert(slots_.end(), layers[i]->slots().begin(), layers[i]->slots().end());
    layers_.push_back(std::move(layers[i]));
  }
}

torch::Tensor Stage::forward(torch::Tensor x, bool training) {
  for (const auto& layer : layers_) x = layer->forward(x, training);
  return x;
}

}  // namespace bitrift::nn
