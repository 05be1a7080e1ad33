// The tensors of a pickle of torch.save as blocks, wherever their storages are.
#pragma once

#include <functional>
#include <vector>

#include "archive/pickle/torch_pickle.h"
#include "ckpt/container/container.h"

namespace bitrift::ckpt {

/// Sorted by path. If several tensors share the same elements, all but the first in path order are aliases of
/// it. `describe`: the block of one tensor.
[[nodiscard]] std::vector<Block> torch_blocks(
    std::vector<archive::TorchTensor> tensors,
    const std::function<Block(const archive::TorchTensor&)>& describe);

}  // namespace bitrift::ckpt
