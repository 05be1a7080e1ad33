// The decoder of today's open language models.
#pragma once

#include "nn/layer/model.h"

namespace bitrift::nn {

/// The inner width of a feed-forward part of three matrices that costs as much as one of two matrices and
/// four widths: 8/3 of the width, rounded up to a multiple of 32 (Touvron et al. 2023, section 2.2, have 2/3
/// 4d).
[[nodiscard]] std::int64_t usual_feed_forward(std::int64_t width);

/// A decoder with the operators and keys of Hugging Face's LlamaForCausalLM (Touvron et al. 2023, "LLaMA";
/// Ainslie et al. 2023 for heads of keys and values that queries share): RMSNorm before both branches
/// (epsilon 1e-5), rotary positions (base 10,000), SwiGLU, no biases, no dropout. Weights start at N(0,
/// 0.02). With model.tied there is no lm_head.weight: the head multiplies by model.embed_tokens.weight, so
/// both must be in one Stage. Takes token numbers, int64 [batch, context]; returns logits [batch, context,
/// vocabulary].
[[nodiscard]] Layers make_llama(const ModelDescription& model);

}  // namespace bitrift::nn
