// The models that train in seconds.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// LeCun et al. 1998 with ReLU and padding, so that it takes 8x8 and 28x28 images.
[[nodiscard]] Layers make_lenet(const ModelDescription& model);

/// fc1 .. fcK (hidden), each with batch normalisation where asked and ReLU, and the last linear layer.
[[nodiscard]] Layers make_mlp(const ModelDescription& model);

}  // namespace bitrift::nn
