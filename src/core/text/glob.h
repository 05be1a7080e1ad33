// Patterns over tensor paths.
#pragma once

#include <string_view>

namespace bitrift {

/// Whether a tensor path matches a pattern. `*` matches within one name (neither '/' nor '.'), `**` matches
/// anything, `?` one character that is neither '/' nor '.'; every other character is literal. The whole path
/// must match, so `model/layer1.*` does not match `model/layer10.weight`. A leading '/' on either side is
/// ignored.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view path);

/// Whether a pattern selects a tensor of a file: it matches its path, or the path of what holds it (`holder`:
/// the dataset of a compound member "<dataset>:<member>"; "" for other tensors). An attribute
/// ("<object>@NAME") is selected only by a pattern that has an '@', so that wildcards over tensors pass them
/// over.
[[nodiscard]] bool glob_selects(std::string_view pattern, std::string_view path, std::string_view holder,
                                bool attribute);

}  // namespace bitrift
