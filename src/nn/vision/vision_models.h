// The vision models by name.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// A vision model by its name; empty when it is none of them. Throws Error(bad_input): samples that
/// are no images, or images too small.
[[nodiscard]] Layers make_vision_model(const ModelDescription& model);

}  // namespace bitrift::nn
