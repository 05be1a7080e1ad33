#include "train/parallel/build.h"

#include "core/error.h"
#include "dataset/load_dataset.h"
#include "nn/layer/measure.h"
#include "nn/make_layers.h"
#include "train/parallel/executor.h"
#include "train/step/autocast.h"

namespace bitrift::train {
namespace {

// Runs work; prefixes an error with the place of its key if the spec has it, otherwise with that of the
// section.
template <typename Work>
auto at_key(const record::TrainingSpec& spec, const char* section, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    const char* key = spec.has(error.key()) ? error.key() : section;
    throw Error(error.code(), spec.where(key) + ": " + error.what());
  }
}

nn::ModelDescription describe_model(const record::TrainingSpec& spec, const nn::Dataset& data) {
  const record::ModelSpec& model = spec.model;
  return {.name = model.name,
          .hidden = {model.hidden.begin(), model.hidden.end()},
          .batch_norm = model.norm == record::Norm::batch,
          .input = data.input_shape(),
          .classes = model.classes > 0 ? model.classes : data.classes(),
          .small = model.small,
          .cifar_stem = model.stem == record::Stem::cifar,
          .auxiliary = model.auxiliary,
          .dropout = model.dropout,
          .layers = model.layers,
          .heads = model.heads,
          .width = model.width,
          .kv_heads = model.kv_heads,
          .feed_forward = model.feed_forward,
          .tied = model.tied};
}

}  // namespace

std::shared_ptr<const nn::Dataset> load_data(const record::TrainingSpec& spec) {
  std::shared_ptr<const nn::Dataset> data =
      at_key(spec, "data", [&] { return nn::load_dataset(spec.data, spec.model); });
  if (data->train_size() < spec.batch_size) {
    fail(ErrorCode::bad_input,
         "{}: a batch of {} is more than the {} training samples of {}; choose a smaller batch_size",
         spec.where("batch_size"), spec.batch_size, data->train_size(), name_of(spec.data.name));
  }
  return data;
}

std::vector<std::unique_ptr<nn::Layer>> make_layers(const record::TrainingSpec& spec,
                                                    const nn::Dataset& data) {
  return at_key(spec, "model", [&] { return nn::make_layers(describe_model(spec, data)); });
}

std::vector<std::pair<std::size_t, std::size_t>> cut_layers(const record::TrainingSpec& spec,
                                                            const std::vector<double>& costs, int stages) {
  return at_key(spec, "parallel", [&] { return nn::cut_layers(costs, stages); });
}

std::vector<double> layer_costs(const record::TrainingSpec& spec, const nn::Dataset& data,
                                const record::Parallel& parallel, const Layout& layout,
                                const nn::Placement& placement) {
  auto layers = make_layers(spec, data);
  if (parallel.balance == record::Balance::estimated || layout.stages() == 1)
    return nn::estimated_costs(layers);
  std::vector<double> costs(layers.size());
  const std::int64_t rows = spec.batch_size / parallel.replicas() / parallel.micro_batches;
  if (layout.world.rank() == 0) costs = nn::measured_costs(layers, rows, placement);
  layout.world.broadcast(costs.data(), costs.size() * sizeof(double), 0);
  return costs;
}

nn::Stage build_stage(const record::TrainingSpec& spec, const nn::Dataset& data,
                      const std::vector<double>& costs, const Layout& layout, const nn::Placement& placement,
                      bool fresh) {
  const auto [first, last] =
      cut_layers(spec, costs, layout.stages())[static_cast<std::size_t>(layout.stage())];
  return {make_layers(spec, data), first, last, fresh ? std::optional(spec.seed) : std::nullopt, placement};
}

torch::Device choose_device(const record::Parallel& parallel, int rank) {
  if (parallel.device == record::DeviceKind::cpu) return torch::kCPU;
  if (!torch::cuda::is_available()) {
    fail(ErrorCode::unsupported,
         "device cuda: {}; use device cpu, or a LibTorch with CUDA on a machine that has a card",
         torch::cuda::device_count() == 0 ? "this LibTorch finds no CUDA device here"
                                          : "CUDA cannot be used here");
  }
  const auto cards = static_cast<int>(torch::cuda::device_count());
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(rank % cards)};
}

}  // namespace bitrift::train
