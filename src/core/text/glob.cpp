#include "core/text/glob.h"

#include <cstddef>
#include <vector>

namespace bitrift {
namespace {

bool is_boundary(char c) { return c == '/' || c == '.'; }

std::string_view without_root(std::string_view text) {
  while (!text.empty() && text.front() == '/') text.remove_prefix(1);
  return text;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view path) {
  pattern = without_root(pattern);
  path = without_root(path);
  // matched[j]: the pattern so far matches the first j characters. Polynomial in time, however many stars
  // there are.
  std::vector<char> matched(path.size() + 1, 0);
  matched[0] = 1;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    std::vector<char> next(path.size() + 1, 0);
    if (pattern[i] == '*') {
      const bool across = i + 1 < pattern.size() && pattern[i + 1] == '*';
      if (across) ++i;
      for (std::size_t j = 0; j <= path.size(); ++j) {
        next[j] = matched[j];
        if (j > 0 && next[j - 1] != 0 && (across || !is_boundary(path[j - 1]))) next[j] = 1;
      }
    } else {
      for (std::size_t j = 1; j <= path.size(); ++j) {
        const char c = path[j - 1];
        const bool same = pattern[i] == '?' ? !is_boundary(c) : pattern[i] == c;
        next[j] = matched[j - 1] != 0 && same ? 1 : 0;
      }
    }
    matched = std::move(next);
  }
  return matched[path.size()] != 0;
}

bool glob_selects(std::string_view pattern, std::string_view path, std::string_view holder, bool attribute) {
  if (attribute && pattern.find('@') == std::string_view::npos) return false;
  return glob_match(pattern, path) || (!holder.empty() && glob_match(pattern, holder));
}

}  // namespace bitrift
