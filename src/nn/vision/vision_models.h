// The vision models by name.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// A vision model by its name; empty when the name is not one of theirs. Throws Error(bad_input): samples
/// that are not images, or images that are too small.
[[nodiscard]] Layers make_vision_model(const ModelDescription& model);

}  // namespace bitrift::nn
