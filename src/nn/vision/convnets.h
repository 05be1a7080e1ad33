// Plain convolutional networks.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// Krizhevsky, arXiv:1404.5997: one column, without local response normalisation.
[[nodiscard]] Layers make_alexnet(const ModelDescription& model);

/// Simonyan and Zisserman, ICLR 2015, configuration D.
[[nodiscard]] Layers make_vgg16(const ModelDescription& model, bool batch_norm);

}  // namespace bitrift::nn
