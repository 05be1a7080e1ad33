// The cost of layers on this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/layer/layer.h"

namespace bitrift::nn {

/// Seconds that the forward and backward pass of each layer takes for `rows` samples: the shortest of three
/// after one to warm up. Layers are built one at a time and left unbuilt. A cut made from these depends on
/// the machine and the moment; the computed values do not depend on the cut.
[[nodiscard]] std::vector<double> measured_costs(const std::vector<std::unique_ptr<Layer>>& layers,
                                                 std::int64_t rows, const Placement& placement);

}  // namespace bitrift::nn
