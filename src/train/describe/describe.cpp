#include "train/describe/describe.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "nn/layer/measure.h"
#include "train/describe/computations.h"
#include "train/parallel/bucket_sum.h"
#include "train/parallel/build.h"
#include "train/parallel/executor.h"
#include "train/parallel/optimizer_shard.h"
#include "train/parallel/reducer.h"
#include "train/step/autocast.h"
#include "train/step/optimizer.h"

namespace bitrift::train {

namespace {

using Layers = std::vector<std::unique_ptr<nn::Layer>>;

std::int64_t elements_of(const nn::Slot& slot) {
  return std::accumulate(slot.shape.begin(), slot.shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Bytes of a gradient's element in the sum.
std::int64_t gradient_bytes(const record::TrainingSpec& spec) {
  return Precision(spec.precision).parameters == torch::kFloat64 ? 8 : 4;
}

record::MessageMap messages_on(const record::TrainingSpec& spec, const record::Parallel& parallel,
                               const nn::Dataset& data, const Layers& layers) {
  if (!parallel.mesh) {
    fail(ErrorCode::bad_input,
         "without a mesh no messages of gradients are planned; name one (docs/mesh.md, \"Training on a "
         "mesh\")");
  }
  std::vector<std::int64_t> trained;
  for (const auto& layer : layers) {
    for (const nn::Slot& slot : layer->slots()) {
      if (slot.trained) trained.push_back(elements_of(slot));
    }
  }
  const std::int64_t bytes = gradient_bytes(spec);
  record::MessageMap map;
  map.steps_per_epoch = data.train_size() / spec.batch_size;
  map.dtype = bytes == 8 ? "float64" : "float32";
  map.buckets = bucket_sizes(trained, bytes);
  if (map.buckets.empty() || parallel.replicas() == 1) return map;
  const std::int64_t largest = *std::ranges::max_element(map.buckets);
  const comm::Schedule schedule = plan_gradients(*parallel.mesh, static_cast<double>(largest * bytes));
  map.chunks = schedule.chunks();
  for (const comm::Send& send : schedule.sends()) {
    map.sends.push_back({send.chunk, send.kind == comm::SendKind::add ? record::MessageKind::add
                                                                      : record::MessageKind::copy});
  }
  return map;
}

using Cuts = std::vector<std::pair<std::size_t, std::size_t>>;

// Bytes of the optimizer's state, by rank.
std::vector<std::uint64_t> optimizer_bytes(const record::TrainingSpec& spec, const record::Parallel& parallel,
                                           const Layers& layers, const Cuts& cuts) {
  const auto element = torch::elementSize(Precision(spec.precision).parameters);
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(parallel.ranks));
  for (std::size_t stage = 0; stage < cuts.size(); ++stage) {
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = cuts[stage].first; i < cuts[stage].second; ++i) {
      for (const nn::Slot& slot : layers[i]->slots()) {
        if (slot.trained) sizes.push_back(static_cast<std::uint64_t>(elements_of(slot)) * element);
      }
    }
    const std::vector<int> owners = spread_by_size(sizes, parallel.replicas());
    for (int replica = 0; replica < parallel.replicas(); ++replica) {
      std::uint64_t& mine = bytes[static_cast<std::size_t>(replica) * cuts.size() + stage];
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (parallel.shard_optimizer && owners[i] != replica) continue;
        for (const auto& [name, scalar] : optimizer_slots(spec.optimizer))
          mine += scalar ? sizeof(float) : sizes[i];
      }
    }
  }
  return bytes;
}

// The number of points of each phase for a rank of each stage (docs/rank-failure.md).
record::Json kill_points(const record::TrainingSpec& spec, const record::Parallel& parallel,
                         const nn::Dataset& data, const Layers& layers, const Cuts& cuts) {
  const std::size_t slots = optimizer_slots(spec.optimizer).size();
  record::Json stages = record::Json::array();
  for (const auto& [first, last] : cuts) {
    std::vector<std::int64_t> trained;
    std::int64_t tensors = 0;
    for (std::size_t i = first; i < last; ++i) {
      for (const nn::Slot& slot : layers[i]->slots()) {
        ++tensors;
        if (!slot.trained) continue;
        trained.push_back(elements_of(slot));
      }
    }
    const auto count = static_cast<std::int64_t>(trained.size());
    const std::int64_t buckets = std::ssize(bucket_sizes(trained, gradient_bytes(spec)));
    stages.push_back({{"forward", parallel.micro_batches},
                      {"backward", parallel.micro_batches},
                      {"reduce", parallel.replicas() > 1 ? std::max<std::int64_t>(1, buckets) : 1},
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
      const std::int64_t count = elements_of(slot);
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
  record::Json description = {{"model", spec.model.name},
                              {"parameters", parameters},
                              {"buffers", buffers},
                              {"layers", rows},
                              {"kill_points", kill_points(spec, parallel, data, layers, cuts)},
                              {"computations", record::to_json(computations_of(spec, parallel, data))},
                              {"optimizer_bytes", optimizer_bytes(spec, parallel, layers, cuts)}};
  if (parallel.mesh) description["messages"] = to_json(messages_on(spec, parallel, data, layers));
  return description;
}

record::MessageMap messages_of(const record::TrainingSpec& spec, const record::Parallel& parallel,
                               const nn::Dataset& data) {
  return messages_on(spec, parallel, data, make_layers(spec, data));
}

}  // namespace bitrift::train
