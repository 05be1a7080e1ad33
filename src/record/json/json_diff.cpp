#include "record/json/json_diff.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace bitrift::campaign {
namespace {

using record::Json;

std::string shown(const Json* value) {
  if (value == nullptr) return "absent";
  std::string text = value->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 120) text = text.substr(0, 117) + "...";
  return text;
}

const Json* member(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<JsonDifference> difference(const Json* first, const Json* second, const std::string& key);

std::optional<JsonDifference> object_difference(const Json& first, const Json& second,
                                                const std::string& key) {
  std::set<std::string> names;
  for (const auto& item : first.items()) names.insert(item.key());
  for (const auto& item : second.items()) names.insert(item.key());
  for (const std::string& name : names) {
    const std::string inner = key.empty() ? name : key + "." + name;
    if (auto found = difference(member(first, name), member(second, name), inner)) return found;
  }
  return std::nullopt;
}

std::optional<JsonDifference> difference(const Json* first, const Json* second, const std::string& key) {
  if (first != nullptr && second != nullptr) {
    if (*first == *second) return std::nullopt;
    if (first->is_object() && second->is_object()) return object_difference(*first, *second, key);
    if (first->is_array() && second->is_array()) {
      const std::size_t count = std::max(first->size(), second->size());
      for (std::size_t i = 0; i < count; ++i) {
        const Json* one = i < first->size() ? &(*first)[i] : nullptr;
        const Json* other = i < second->size() ? &(*second)[i] : nullptr;
        if (auto found = difference(one, other, key + "[" + std::to_string(i) + "]")) return found;
      }
      return std::nullopt;
    }
  }
  return JsonDifference{key, shown(first), shown(second)};
}

}  // namespace

std::optional<JsonDifference> json_difference(const Json& first, const Json& second) {
  return difference(&first, &second, "");
}

}  // namespace bitrift::campaign
