// Residual networks.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// He et al., CVPR 2016, section 4.2, with the shortcuts of option A.
[[nodiscard]] Layers make_resnet20(const ModelDescription& model);

/// He et al., CVPR 2016, table 1: 18 layers or `fifty`, with the shortcuts of option B; the stride of a
/// bottleneck is in its 3x3 convolution.
[[nodiscard]] Layers make_resnet(const ModelDescription& model, bool fifty);

}  // namespace bitrift::nn
