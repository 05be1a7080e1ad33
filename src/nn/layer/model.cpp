#include "nn/layer/model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::nn {
std::vector<double> estimated_costs(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::vector<double> costs;
  costs.reserve(layers.size());
  for (const auto& layer : layers) costs.push_back(static_cast<double>(layer->cost()));
  return costs;
}

std::vector<std::pair<std::size_t, std::size_t>> cut_layers(const std::vector<double>& costs, int stages) {
  const std::size_t count = costs.size();
  const auto parts = static_cast<std::size_t>(stages);
  if (stages < 1 || parts > count) {
    fail(ErrorCode::bad_input,
         "a pipeline of {} stages cannot be cut from a model of {} layers: use 1 to {} ranks", stages, count,
         count);
  }
  // best[p][i]: the lowest possible cost of the costliest stage when layers [i, count) make p stages.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(count + 1, never));
  best[0][count] = 0;
  for (std::size_t p = 1; p <= parts; ++p) {
    for (std::size_t i = 0; i < count; ++i) {
      double cost = 0;
      for (std::size_t end = i + 1; end <= count; ++end) {
        cost += costs[end - 1];
        best[p][i] = std::min(best[p][i], std::max(cost, best[p - 1][end]));
      }
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> cuts;
  std::size_t first = 0;
  for (std::size_t p = parts; p > 0; --p) {
    double cost = 0;
    std::size_t end = first;
    do {
      cost += costs[end++];
    } while (std::max(cost, best[p - 1][end]) > best[parts][0]);
    cuts.emplace_back(first, end);
    first = end;
  }
  return cuts;
}

Stage::Stage(std::vector<std::unique_ptr<Layer>> layers, std::size_t first, std::size_t last,
             std::optional<std::uint64_t> seed, const Placement& placement)
    : placement_(placement) {
  for (const auto& layer : layers)
    all_slots_.insert(all_slots_.end(), layer->slots().begin(), layer->slots().end());
  for (std::size_t i = first; i < last; ++i) {
    layers[i]->build(seed, placement);
    slots_.insert(slots_.end(), layers[i]->slots().begin(), layers[i]->slots().end());
    layers_.push_back(std::move(layers[i]));
  }
}

bool Stage::has_auxiliary() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const auto& layer) { return layer->has_auxiliary(); });
}

StageOutput Stage::forward(torch::Tensor x, const Pass& pass) {
  StageOutput output;
  for (const auto& layer : layers_) {
    x = layer->forward(x, pass);
    if (pass.tap != nullptr) x = pass.tap->output(layer->name(), std::move(x));
    if (pass.training && layer->has_auxiliary()) output.auxiliary.push_back(layer->auxiliary(x, pass));
  }
  output.y = std::move(x);
  return output;
}

}  // namespace bitrift::nn
