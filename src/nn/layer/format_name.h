// The names of the number formats that tensors have.
#pragma once

#include "dataset/torch.h"

namespace bitrift::nn {

/// The format in which a checkpoint holds numbers of this type: "float32". Throws Error(internal) if none
/// does.
[[nodiscard]] const char* format_name(torch::ScalarType type);

}  // namespace bitrift::nn
