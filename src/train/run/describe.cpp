#include "train/run/describe.h"

#include <algorithm>
#include <numeric>

#include "nn/layer/measure.h"
#include "train/parallel/build.h"
#include "train/parallel/executor.h"
#include "train/parallel/reducer.h"
#include "train/step/autocast.h"
#include "train/step/optimizer.h"

namespace bitrift::train {

namespace {

// How many points each phase has for a rank of each stage (docs/rank-failure.md).
record::Json kill_points(const record::TrainingSpec& spec, const record::Parallel& parallel,
                         const nn::Dataset& data, const std::vector<std::unique_ptr<nn::Layer>>& layers,
                         const std::vector<std::pair<std::size_t, std::size_t>>& cuts) {
  const std::size_t slots = optimizer_slots(spec.optimizer).size();
  record::Json stages = record::Json::array();
  for (const auto& [first, last] : cuts) {
    std::vector<std::int64_t> trained;
    std::int64_t tensors = 0;
    for (std::size_t i = first; i < last; ++i) {
      for (const nn::Slot& slot : layers[i]->slots()) {
        ++tensors;
        if (!slot.trained) continue;
        trained.push_back(
            std::accumulate(slot.shape.begin(), slot.shape.end(), std::int64_t{1}, std::multiplies<>()));
      }
    }
    const auto count = static_cast<std::int64_t>(trained.size());
    const std::int64_t bytes = Precision(spec.precision).parameters == torch::kFloat64 ? 8 : 4;
    stages.push_back({{"forward", parallel.micro_batches},
                      {"backward", parallel.micro_batches},
                      {"reduce", parallel.replicas() > 1 ? bucket_count(trained, bytes) : 1},
                      {"update", std::max<std::int64_t>(1, count)},
                      {"save", std::max<std::int64_t>(1, tensors + count * static_cast<std::int64_t>(slots))},
                      {"evaluate", evaluation_batches(data)}});
  }
  return {{"steps_per_epoch", data.train_size() / spec.batch_size}, {"stages", stages}};
}

}  // namespace

record::Json describe(const record::TrainingSpec& spec, const record::Parallel& parallel,
                      const nn::Dataset& data) {
  const auto layers = make_layers(spec, data);
  std::vector<double> costs = nn::estimated_costs(layers);
  if (parallel.balance == record::Balance::measured) {
    const std::int64_t rows = spec.batch_size / parallel.replicas() / parallel.micro_batches;
    costs =
        nn::measured_costs(layers, rows, {Precision(spec.precision).parameters, choose_device(parallel, 0)});
  }
  const auto cuts = nn::cut_layers(costs, parallel.stages);
  record::Json rows = record::Json::array();
  std::int64_t parameters = 0, buffers = 0;
  std::size_t stage = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i == cuts[stage].second) ++stage;
    record::Json tensors = record::Json::array();
    std::int64_t own = 0;
    for (const nn::Slot& slot : layers[i]->slots()) {
      const std::int64_t count =
          std::accumulate(slot.shape.begin(), slot.shape.end(), std::int64_t{1}, std::multiplies<>());
      (slot.trained ? own : buffers) += count;
      tensors.push_back({{"key", slot.key}, {"shape", slot.shape}, {"trained", slot.trained}});
    }
    parameters += own;
    rows.push_back({{"name", layers[i]->name()},
                    {"stage", stage},
                    {"input", layers[i]->input_shape()},
                    {"output", layers[i]->output_shape()},
                    {"parameters", own},
                    {"multiply_adds", layers[i]->cost()},
                    {"tensors", tensors}});
    if (parallel.balance == record::Balance::measured) rows.back()["seconds"] = costs[i];
  }
  return {{"model", spec.model.name},
          {"parameters", parameters},
          {"buffers", buffers},
          {"layers", rows},
          {"kill_points", kill_points(spec, parallel, data, layers, cuts)}};
}

}  // namespace bitrift::train
