// The weights of the model in a base.
#pragma once

#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace bitrift::campaign {

/// The dict or group that holds the model: "model" where that has weights, otherwise the outermost one with
/// the most bytes of weights, the first of several by name. "": the weights are in none.
[[nodiscard]] std::string model_folder(const ckpt::Reader& base);

/// The tensors there with the role weight, in natural order, without aliases and tensors that were left out.
[[nodiscard]] std::vector<std::string> model_weights(const ckpt::Reader& base);

}  // namespace bitrift::campaign
