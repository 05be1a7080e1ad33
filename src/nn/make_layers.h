// A model by its name.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// All layers, none built. Throws Error(bad_input): unknown name, or samples that the model cannot take.
[[nodiscard]] Layers make_layers(const ModelDescription& description);

}  // namespace bitrift::nn
