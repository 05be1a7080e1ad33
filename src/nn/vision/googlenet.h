// GoogLeNet.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// Szegedy et al., CVPR 2015, with batch normalisation.
[[nodiscard]] Layers make_googlenet(const ModelDescription& model);

}  // namespace bitrift::nn
