// The roles that tensors can have. Who has which: outline.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// Every role name (docs/roles.md), for messages and the schema.
[[nodiscard]] const std::vector<std::string>& role_names();

/// Whether PyTorch's names put a path into the state of an optimizer.
[[nodiscard]] bool is_optimizer_path(std::string_view path);

/// PyTorch's names, ours among them (`ours`: a checkpoint of bitrift, where shapes decide nothing).
[[nodiscard]] std::vector<Place> pytorch_places(const Catalog& catalog, bool ours);

}  // namespace bitrift::ckpt
