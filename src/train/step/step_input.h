// The input of a step. Inside train/ only.
#pragma once

#include <cstdint>
#include <span>

namespace bitrift::train {

struct StepInput {
  std::span<const std::int64_t> batch;  ///< samples of the global batch, in order
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< optimizer steps completed before this one
  double loss_scale = 1;  ///< losses are multiplied by it before the backward pass
  bool scaled = false;    ///< whether there is loss scaling at all
};

}  // namespace bitrift::train
