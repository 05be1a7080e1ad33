#include "ckpt/tensor_hint.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/text/glob.h"
#include "core/text/nearest_word.h"

namespace bitrift::ckpt {
namespace {

std::string meant(const std::vector<std::string>& paths, const std::string& pattern) {
  const std::string anywhere = "**/" + pattern;
  const auto found = std::find_if(paths.begin(), paths.end(),
                                  [&](const std::string& path) { return glob_match(anywhere, path); });
  const bool wildcards = pattern.find_first_of("*?") != std::string::npos;
  if (found != paths.end()) return wildcards ? anywhere : *found;
  return wildcards ? "" : nearest_word(pattern, paths);
}

}  // namespace

std::string tensor_hint(const Reader& reader, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const TensorInfo& tensor : reader.tensors()) paths.push_back(tensor.path);
  const std::string found = meant(paths, pattern);
  return found.empty() ? "" : fmt::format("; did you mean '{}'?", found);
}

}  // namespace bitrift::ckpt
