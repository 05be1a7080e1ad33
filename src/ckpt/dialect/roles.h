// The roles that tensors can have. outline.h assigns them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// Every role name (docs/roles.md), for messages and the schema.
[[nodiscard]] const std::vector<std::string>& role_names();

/// Whether a path belongs to the state of an optimizer, by PyTorch's names.
[[nodiscard]] bool is_optimizer_path(std::string_view path);

/// PyTorch's names, ours among them (`ours`: a checkpoint of bitrift, in which shapes decide nothing).
[[nodiscard]] std::vector<Place> pytorch_places(const Catalog& catalog, bool ours);

}  // namespace bitrift::ckpt
