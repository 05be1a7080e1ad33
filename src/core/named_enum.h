// Enums whose values have names: one table for each, from which both directions follow.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace bitrift {

/// The names of an enum's values, in the order of its enumerators, which count from 0. An enum E has names
/// when its namespace declares, right after it, `constexpr EnumNames<N> names_of(E)`.
template <std::size_t n>
struct EnumNames {
  const char* noun;  ///< what a value is, for messages: "plane"
  std::array<const char*, n> words;
};

template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) {
  { names_of(value).noun } -> std::convertible_to<const char*>;
};

/// "storage".
template <NamedEnum E>
[[nodiscard]] constexpr const char* name_of(E value) noexcept {
  return names_of(value).words[static_cast<std::size_t>(value)];
}

/// The value with this name, if there is one.
template <NamedEnum E>
[[nodiscard]] constexpr std::optional<E> find_named(std::string_view name) noexcept {
  const auto words = names_of(E{}).words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (name == words[i]) return static_cast<E>(i);
  }
  return std::nullopt;
}

/// The value with this name. Throws Error(bad_file): "'x' is not a valid plane".
template <NamedEnum E>
[[nodiscard]] E parse_named(std::string_view name) {
  if (const auto value = find_named<E>(name)) return *value;
  fail(ErrorCode::bad_file, "'{}' is not a valid {}", name, names_of(E{}).noun);
}

/// All names, for messages: "value, storage, metadata".
template <NamedEnum E>
[[nodiscard]] std::string list_names() {
  std::string list;
  for (const char* word : names_of(E{}).words) list += (list.empty() ? "" : ", ") + std::string(word);
  return list;
}

}  // namespace bitrift
