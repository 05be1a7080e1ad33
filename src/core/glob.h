// Patterns over tensor paths.
#pragma once

#include <string_view>

namespace bitrift {

/// Whether a tensor path matches a pattern. `*` matches within one name (neither '/' nor '.'), `**` matches
/// anything, `?` one character that is neither '/' nor '.'; all else is literal. The whole path must match,
/// so `model/layer1.*` does not match `model/layer10.weight`. A leading '/' on either side is ignored.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view path);

}  // namespace bitrift
