// The models by family. Inside nn/ only; others call make_layers().
#pragma once

#include "nn/model.h"

namespace bitrift::nn {

using Layers = std::vector<std::unique_ptr<Layer>>;

/// LeCun et al. 1998 with ReLU and padding, so that it takes 8x8 and 28x28 images.
[[nodiscard]] Layers make_lenet(const ModelDescription& model);
/// fc1 .. fcK (hidden), each with batch normalisation where asked and ReLU, and the last linear layer.
[[nodiscard]] Layers make_mlp(const ModelDescription& model);

/// One of the models below by its name; empty when it is none of them. Throws Error(bad_input): samples that
/// are no images, or images too small.
[[nodiscard]] Layers make_vision_model(const ModelDescription& model);
/// He et al., CVPR 2016, section 4.2, with the shortcuts of option A.
[[nodiscard]] Layers make_resnet20(const ModelDescription& model);
/// The same, table 1: 18 layers or `fifty`, with the shortcuts of option B; the stride of a bottleneck is in
/// its 3x3 convolution.
[[nodiscard]] Layers make_resnet(const ModelDescription& model, bool fifty);
/// Krizhevsky, arXiv:1404.5997: one column, without local response normalisation.
[[nodiscard]] Layers make_alexnet(const ModelDescription& model);
/// Simonyan and Zisserman, ICLR 2015, configuration D.
[[nodiscard]] Layers make_vgg16(const ModelDescription& model, bool batch_norm);
/// Szegedy et al., CVPR 2015, with batch normalisation.
[[nodiscard]] Layers make_googlenet(const ModelDescription& model);

}  // namespace bitrift::nn
