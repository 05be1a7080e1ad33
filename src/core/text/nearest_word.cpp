#include "core/text/nearest_word.h"

#include <algorithm>
#include <cstddef>

namespace bitrift {
namespace {

// The number of letters to insert, remove, replace or swap with the next one (Damerau 1964).
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> least(from.size() + 1, std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      std::size_t& here = least[i][j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      const bool equal = from[i - 1] == to[j - 1];
      here = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + (equal ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) here = std::min(here, least[i - 2][j - 2] + 1);
    }
  }
  return least[from.size()][to.size()];
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t fewest = std::min<std::size_t>(word.size() / 3, 3) + 1;
  for (const std::string& one : known) {
    if (const std::size_t distance = edits(word, one); distance < fewest) {
      fewest = distance;
      nearest = one;
    }
  }
  return nearest;
}

}  // namespace bitrift
