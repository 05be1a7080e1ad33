// The weights of the model in a base.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace bitrift::campaign {

/// An outermost dict or group of a base, and the tensors in it with the role weight, in natural order,
/// without aliases and tensors that were left out.
struct WeightFolder {
  std::string name = {};  ///< "": the weights are in none
  std::vector<std::string> weights = {};
};

/// All that have weights. The first one holds the model: "model" if it is among them, otherwise the one with
/// the most bytes of weights. The others, such as averages of the weights, follow by their bytes, those of
/// equal size by name.
[[nodiscard]] std::vector<WeightFolder> weight_folders(const ckpt::Reader& base);

/// The weights of the first folder in which some are not `unused`, without those that are.
[[nodiscard]] std::vector<std::string> used_weights(const ckpt::Reader& base,
                                                    const std::set<std::string>& unused);

}  // namespace bitrift::campaign
