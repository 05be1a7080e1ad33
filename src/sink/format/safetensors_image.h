// Lays a checkpoint out as a safetensors file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/image.h"

namespace bitrift::ckpt {

/// Length, JSON, then the tensors: those with the widest elements first, so that all are aligned; equally
/// wide ones in path order. The JSON has the attributes in "__metadata__" and is padded to 8 bytes. metas:
/// sorted, and of types that safetensors has. Throws Error(bad_input) for names and attributes that are not
/// valid UTF-8, and for a tensor named "__metadata__".
[[nodiscard]] Image safetensors_image(const std::vector<TensorMeta>& metas,
                                      const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::ckpt
