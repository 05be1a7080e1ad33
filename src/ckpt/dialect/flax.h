// Pytrees of JAX in files of names: Flax (linen and NNX) and the states of Optax.
#pragma once

#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// More variables have names of Flax (`kernel`, `embedding`) than PyTorch's (`weight`).
[[nodiscard]] bool is_flax(const Catalog& catalog);
/// A Place for each dataset.
[[nodiscard]] std::vector<Place> flax_places(const Catalog& catalog);

}  // namespace bitrift::ckpt
