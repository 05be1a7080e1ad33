// The layers of the models that a spec can name.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// All layers, none built. The samples are text for the transformers, else images, as the reader of a spec
/// makes sure. Throws Error(bad_input) for images that are too small.
[[nodiscard]] Layers make_layers(const ModelDescription& description);

}  // namespace bitrift::nn
