// The roles that tensors can have. Who has which: outline.h.
#pragma once

#include <string>
#include <vector>

namespace bitrift::ckpt {

/// Every role name (docs/roles.md), for messages and the schema.
[[nodiscard]] const std::vector<std::string>& role_names();

}  // namespace bitrift::ckpt
