// What somebody who named a tensor that does not exist may have meant.
#pragma once

#include <string>

#include "ckpt/reader.h"

namespace bitrift::ckpt {

/// "; did you mean 'model/conv1.weight'?" for a pattern that selects no tensor, or "": a tensor whose path
/// ends with the pattern, one whose path differs by a few letters, or for wildcards the pattern in any group.
[[nodiscard]] std::string tensor_hint(const Reader& reader, const std::string& pattern);

}  // namespace bitrift::ckpt
