// The models by family. Inside nn/ only; others call make_layers().
#pragma once

#include "nn/model.h"

namespace bitrift::nn {

using Layers = std::vector<std::unique_ptr<Layer>>;

/// LeCun et al. 1998 with ReLU and padding, so that it takes 8x8 and 28x28 images.
[[nodiscard]] Layers make_lenet(const ModelDescription& model);
/// fc1 .. fcK (hidden), each with batch normalisation where asked and ReLU, and the last linear layer.
[[nodiscard]] Layers make_mlp(const ModelDescription& model);
/// A decoder with GPT-2's initial values (Radford et al. 2019), keys as in nanoGPT: norms before their
/// branches, GELU by the error function, dropout (default 0) on the embeddings and both branches but not on
/// attention weights. lm_head is not tied to wte: a pipeline holds them on different ranks. Takes token
/// numbers, int64 [batch, context]; returns logits [batch, context, vocabulary].
[[nodiscard]] Layers make_gpt(const ModelDescription& model);
/// An encoder with the masked-token head (Devlin et al., NAACL 2019), keys as in Hugging Face's
/// BertForMaskedLM: norms after the sums, GELU by the error function, every token in segment 0, dropout
/// (default 0.1) on the embeddings and both branches but not on attention weights. cls.predictions.decoder is
/// not tied to word_embeddings and has the only bias of the head. Shapes as make_gpt().
[[nodiscard]] Layers make_bert(const ModelDescription& model);

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
