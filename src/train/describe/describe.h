// The parts of a model, for people who choose where to aim and how to spread it.
#pragma once

#include "record/fault/message_map.h"
#include "record/json/json.h"
#include "spec/training_spec.h"

namespace bitrift::nn {
class Dataset;
}

namespace bitrift::train {

/// {"model", "parameters", "buffers", "layers": [{"name", "stage", "input", "output", "parameters",
/// "multiply_adds", "tensors": [{"key", "shape", "trained"}]}], "kill_points", "computations",
/// "optimizer_bytes", "messages"}: shapes of one sample, stages as the spec's layout cuts them, bytes of
/// optimizer state by rank, messages only on a mesh. `data`: as returned by load_runnable() for both. Builds
/// no tensor unless costs have to be measured or autocast chooses types.
[[nodiscard]] record::Json describe(const record::TrainingSpec& spec, const record::Parallel& parallel,
                                    const nn::Dataset& data);

/// The messages of gradients of a run on a mesh, as the run will plan them. Throws Error(bad_input) without a
/// mesh.
[[nodiscard]] record::MessageMap messages_of(const record::TrainingSpec& spec,
                                             const record::Parallel& parallel, const nn::Dataset& data);

}  // namespace bitrift::train
