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

}  // namespace bitrift::nn
