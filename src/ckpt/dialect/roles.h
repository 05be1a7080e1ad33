// The roles that tensors can have. Who has which: outline.h.
#pragma once

#include <string>
#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// Every role name (docs/roles.md), for messages and the schema.
[[nodiscard]] const std::vector<std::string>& role_names();

/// PyTorch's names, ours among them (`ours`: a checkpoint of bitrift, where shapes decide nothing).
[[nodiscard]] std::vector<Place> pytorch_places(const Catalog& catalog, bool ours);

}  // namespace bitrift::ckpt
