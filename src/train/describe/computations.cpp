#include "train/describe/computations.h"

#include <functional>
#include <numeric>

#include "dataset/dataset.h"
#include "nn/layer/format_name.h"
#include "train/parallel/build.h"
#include "train/step/autocast.h"
#include "train/step/loss_scaler.h"

namespace bitrift::train {
namespace {

using Layers = std::vector<std::unique_ptr<nn::Layer>>;

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The types of the layers' outputs.
std::vector<torch::ScalarType> output_types(const Layers& layers, const Precision& precision,
                                            torch::Device device) {
  std::vector<torch::ScalarType> types(layers.size(), precision.parameters);
  if (!precision.autocast) return types;
  const torch::NoGradGuard no_grad;
  const AutocastRegion region(precision, device);
  // Tokens enter the first layer of a model of text; token 0 is in every vocabulary.
  const nn::Layer& first = *layers.front();
  const bool tokens = first.input_shape().size() == 1 && first.output_shape().size() == 2;
  torch::ScalarType type = tokens ? torch::kInt64 : precision.parameters;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<std::int64_t> shape = layers[i]->input_shape();
    shape.insert(shape.begin(), 1);
    layers[i]->build(std::nullopt, {precision.parameters, device});
    const torch::Tensor input = torch::zeros(shape, torch::TensorOptions(type).device(device));
    types[i] = type = layers[i]->forward(input, {}).scalar_type();
  }
  // Not one by one: a layer may use the tensor of an earlier one.
  for (const auto& layer : layers) layer->release();
  return types;
}

}  // namespace

record::ComputeMap computations_of(const record::TrainingSpec& spec, const record::Parallel& parallel,
                                   const nn::Dataset& data) {
  const Layers layers = make_layers(spec, data);
  const Precision precision(spec.precision);
  const std::vector<torch::ScalarType> types = output_types(layers, precision, choose_device(parallel, 0));
  const std::int64_t rows = spec.batch_size / parallel.replicas() / parallel.micro_batches;
  record::ComputeMap map{.steps_per_epoch = data.train_size() / spec.batch_size,
                         .replicas = parallel.replicas(),
                         .may_skip = LossScaler(spec).dynamic()};
  bool trained = false;  // some parameter so far
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const nn::Slot& slot : layers[i]->slots()) {
      if (!slot.trained) continue;
      trained = true;
      map.parameters.push_back({slot.key, count_of(slot.shape), nn::format_name(precision.parameters)});
    }
    map.layers.push_back({.name = layers[i]->name(),
                          .elements = rows * count_of(layers[i]->output_shape()),
                          .dtype = nn::format_name(types[i]),
                          .differentiable = trained,
                          .passes = parallel.micro_batches});
  }
  return map;
}

}  // namespace bitrift::train
