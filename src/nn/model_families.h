// The models by family. Inside nn/ only; others call make_layers().
#pragma once

#include "nn/model.h"

namespace bitrift::nn {

using Layers = std::vector<std::unique_ptr<Layer>>;

/// LeCun et al. 1998 with ReLU and padding, so that it takes 8x8 and 28x28 images.
[[nodiscard]] Layers make_lenet(const ModelDescription& model);
/// fc1 .. fcK (hidden), each with batch normalisation where asked and ReLU, and the last linear layer.
[[nodiscard]] Layers make_mlp(const ModelDescription& model);

}  // namespace bitrift::nn
