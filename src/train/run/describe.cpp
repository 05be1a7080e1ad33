#include "train/run/describe.h"

#include <numeric>

#include "nn/layer/measure.h"
#include "train/parallel/build.h"
#include "train/step/autocast.h"

namespace bitrift::train {

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
  return {{"model", spec.model.name}, {"parameters", parameters}, {"buffers", buffers}, {"layers", rows}};
}

}  // namespace bitrift::train
