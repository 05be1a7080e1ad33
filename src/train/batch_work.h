// What strategies do with one micro-batch. Inside train/ only.
#pragma once

#include <cstdint>
#include <span>

#include "nn/dataset.h"

namespace bitrift::train {

/// Images as model input, float32 [rows, channels, height, width], and labels, int64 [rows].
[[nodiscard]] torch::Tensor take_images(const nn::Split& split, std::span<const std::int64_t> rows);
[[nodiscard]] torch::Tensor take_labels(const nn::Split& split, std::span<const std::int64_t> rows);

/// Micro-batch m of `count` equal contiguous parts.
[[nodiscard]] std::span<const std::int64_t> part(std::span<const std::int64_t> rows, int m, int count);

/// Rows whose largest logit (the first among equals) is the label's.
[[nodiscard]] std::int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& labels);

/// loss / count, or the loss itself when count is 1, so that a plain step has the bits of plain PyTorch.
[[nodiscard]] torch::Tensor share_of(const torch::Tensor& loss, int count);

}  // namespace bitrift::train
