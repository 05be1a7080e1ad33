// Suggests the tensor that a wrong name probably meant.
#pragma once

#include <string>

#include "ckpt/reader.h"

namespace bitrift::ckpt {

/// "; did you mean 'model/conv1.weight'?" for a pattern that selects no tensor; "" if nothing is close. A
/// tensor is close if its path ends with the pattern or differs from it by a few letters. A pattern with
/// wildcards is suggested with "**/" before it, if that selects a tensor.
[[nodiscard]] std::string tensor_hint(const Reader& reader, const std::string& pattern);

}  // namespace bitrift::ckpt
