// Transformers for text.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

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
