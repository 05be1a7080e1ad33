#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

std::vector<std::string_view> components(std::string_view path, const char* separators) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t cut = path.find_first_of(separators);
    parts.push_back(path.substr(0, cut));
    if (cut == std::string_view::npos) return parts;
    path.remove_prefix(cut + 1);
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string_view leaf_of(std::string_view path) {
  const std::size_t cut = path.rfind('/');
  return cut == std::string_view::npos ? path : path.substr(cut + 1);
}

std::string_view parent_of(std::string_view path) {
  const std::size_t cut = path.rfind('/');
  return cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
}

std::string_view without_number(std::string_view name) {
  std::string_view stem = name;
  while (!stem.empty() && std::isdigit(static_cast<unsigned char>(stem.back())) != 0) stem.remove_suffix(1);
  if (stem.empty()) return name;
  if (stem.size() < name.size() && stem.size() > 1 && stem.back() == '_') stem.remove_suffix(1);
  return stem;
}

bool names_a_norm(std::string_view layer) {
  const std::string module = lower(layer.substr(layer.find_last_of("./") + 1));
  const std::string_view stem = without_number(module);
  return module.find("norm") != std::string::npos || is_one_of<4>(stem, {"ln", "bn", "gn", "rms"});
}

}  // namespace bitrift::ckpt
