// Losses and right answers of a micro-batch. Inside train/ only.
#pragma once

#include <cstdint>

#include "nn/layer/model.h"

namespace bitrift::train {

/// A target that is not asked, as PyTorch's ignore_index.
inline constexpr std::int64_t not_asked = -100;

/// Mean cross-entropy over the targets that are asked. logits: [rows, classes] or [rows, context, classes];
/// targets: int64 [rows] or [rows, context]. 16-bit logits are widened to float32 first.
[[nodiscard]] torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets);

/// The sums over the targets of a batch in an evaluation.
struct LossSums {
  double loss = 0;    ///< cross-entropy, in the type of the logits (16-bit ones widened)
  double capped = 0;  ///< min(cross-entropy of each target, ln(classes)), in double; NaN stays NaN
};
/// Sums over the targets that are asked; logits and targets as for cross_entropy().
[[nodiscard]] LossSums sum_losses(const torch::Tensor& logits, const torch::Tensor& targets);

/// loss / count, or the loss itself when count is 1, so that a plain step has the bits of plain PyTorch.
[[nodiscard]] torch::Tensor share_of(const torch::Tensor& loss, int count);

/// The number of targets that were asked, and the number for which the largest logit (the first among equals)
/// is right.
struct Answers {
  std::int64_t asked = 0;
  std::int64_t correct = 0;
};
[[nodiscard]] Answers count_answers(const torch::Tensor& logits, const torch::Tensor& targets);

}  // namespace bitrift::train
