// What every format demands of a checkpoint's list of tensors.
#pragma once

#include <vector>

#include "ckpt/tensor.h"

namespace bitrift::ckpt {

/// Sorted by path. Throws Error(bad_input): no tensor, one given twice, a path that is impossible, that is
/// also a group, or that belongs to the checksums (docs/checkpoint-format.md), a format that is not
/// little-endian.
[[nodiscard]] std::vector<TensorMeta> checked_tensors(std::vector<TensorMeta> metas);

}  // namespace bitrift::ckpt
