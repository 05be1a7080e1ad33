#include "integrity/explanation.h"

#include <algorithm>

#include <fmt/format.h>

namespace bitrift::integrity {

Explanation only_explanation(const std::vector<std::vector<FileBit>>& candidates,
                             std::optional<double> chance, const std::string& none) {
  if (candidates.empty()) return {{}, std::nullopt, none};
  if (candidates.size() == 1) {
    if (chance) chance = std::min(*chance, 1.0);
    return {candidates.front(), chance, ""};
  }
  return {{},
          std::nullopt,
          fmt::format("{} ways to flip {} would make it sound", candidates.size(),
                      candidates.front().size() == 1 ? "one bit" : "two bits of a word")};
}

}  // namespace bitrift::integrity
