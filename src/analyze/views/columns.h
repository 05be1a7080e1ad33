// Plain tables.
#pragma once

#include <string>
#include <vector>

namespace bitrift::analyze {

/// Lines of equally many cells, the first of which are the heads. Columns are two blanks apart and aligned to
/// the left; no line ends in a blank.
[[nodiscard]] std::string in_columns(const std::vector<std::vector<std::string>>& lines);

}  // namespace bitrift::analyze
