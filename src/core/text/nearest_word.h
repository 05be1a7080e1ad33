// Guesses what a misspelt word was meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bitrift {

/// The known word that takes the fewest edits (letters inserted, removed, replaced or swapped), if it takes
/// few: at most one for every three letters of the word, and at most three. Otherwise "". The first of
/// equally near words counts.
[[nodiscard]] std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace bitrift
