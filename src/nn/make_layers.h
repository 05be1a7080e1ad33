// The layers of the models that a spec can name.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// All layers, none built. The reader of a spec makes sure that the samples are text for the transformers,
/// and images for all other models. Throws Error(bad_input) for images that are too small.
[[nodiscard]] Layers make_layers(const ModelDescription& description);

}  // namespace bitrift::nn
