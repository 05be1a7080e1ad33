// Lays a checkpoint out as a file of torch.save.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/image.h"

namespace bitrift::ckpt {

/// The members that torch.save writes, in its order: the pickle, notes on the format, and a storage for each
/// tensor. The pickle makes nested dicts, one for each '/' in a path: {"model": {"conv1.weight": tensor}},
/// and holds the attributes as texts of the outermost one. metas: sorted, and of types that PyTorch has.
/// Throws Error(bad_input) for an attribute that is named like a tensor or group.
[[nodiscard]] Image torch_image(const std::vector<TensorMeta>& metas,
                                const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::ckpt
