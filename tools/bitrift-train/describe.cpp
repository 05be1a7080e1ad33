#include "train/describe/describe.h"

#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "train/run/trainer.h"

namespace bitrift::cli {

int describe(const Arguments& arguments) {
  const record::TrainingSpec spec = record::read_training_spec(arguments.input);
  const record::Parallel parallel = chosen_parallel(arguments.parallel, spec.parallel);
  const auto data = train::load_runnable(spec, parallel);
  train::prepare_libtorch(spec.threads);
  const record::Json model = train::describe(spec, parallel, *data);
  if (arguments.json) {
    fmt::print("{}\n", model.dump(2));
    return 0;
  }
  const auto shape = [](const record::Json& value) {
    return fmt::format("{}", fmt::join(value.get<std::vector<std::int64_t>>(), "x"));
  };
  fmt::print("{:<28} {:>5} {:>14} {:>14} {:>12} {:>15}\n", "layer", "stage", "input", "output", "parameters",
             "multiply-adds");
  for (const record::Json& layer : model["layers"]) {
    fmt::print("{:<28} {:>5} {:>14} {:>14} {:>12} {:>15}\n", layer["name"].get<std::string>(),
               layer["stage"].get<int>(), shape(layer["input"]), shape(layer["output"]),
               layer["parameters"].get<std::int64_t>(), layer["multiply_adds"].get<std::int64_t>());
  }
  fmt::print("{}: {} parameters in {} layers, cut into {} stage(s)\n", name_of(spec.model.name),
             model["parameters"].get<std::int64_t>(), model["layers"].size(), parallel.stages);
  const auto bytes = model["optimizer_bytes"].get<std::vector<std::uint64_t>>();
  if (parallel.shard_optimizer)
    fmt::print("optimizer state, sharded: {} bytes, by rank\n", fmt::join(bytes, ", "));
  return 0;
}

}  // namespace bitrift::cli
