// A struct as a JSON object: one table of its keys, from which writing and reading follow.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "record/json/json.h"

namespace bitrift::record {

/// Whether a key is written, and whether it must be there to be read. An empty std::optional is never
/// written, and the key of an optional member need not be there.
enum class Presence {
  required,        ///< always written; reading an object without it throws Json::out_of_range
  defaulted,       ///< always written; the member keeps its default when the key is absent
  unless_default,  ///< written unless the member has its default, or is an empty list or text; absent: as
                   ///< above
};

/// A key of an object, and the member of a struct that it holds.
template <typename Struct, typename Value>
struct Key {
  const char* name;
  Value Struct::*member;
  Presence presence = Presence::required;
};
template <typename Struct, typename Value>
Key(const char*, Value Struct::*) -> Key<Struct, Value>;
template <typename Struct, typename Value>
Key(const char*, Value Struct::*, Presence) -> Key<Struct, Value>;

/// A struct is an object in JSON if its namespace declares, right after it, `constexpr auto
/// keys_of(std::type_identity<T>)`, which returns a std::tuple of Key. Then `Json(value)` writes it, and
/// `json.get<T>()` reads it.
template <typename T>
concept HasKeys = std::is_class_v<T> && requires {
  keys_of(std::type_identity<T>{});
};

namespace detail {

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <typename Value>
[[nodiscard]] Json value_to_json(const Value& value) {
  if constexpr (std::is_same_v<Value, double>) {
    return number_to_json(value);
  } else if constexpr (std::is_same_v<Value, std::map<std::string, double>>) {
    Json object = Json::object();
    for (const auto& [name, number] : value) object[name] = number_to_json(number);
    return object;
  } else {
    return value;
  }
}
template <typename Value>
[[nodiscard]] Value value_from_json(const Json& value) {
  if constexpr (std::is_same_v<Value, double>) {
    return number_from_json(value);
  } else if constexpr (std::is_same_v<Value, std::map<std::string, double>>) {
    Value numbers;
    for (const auto& [name, number] : value.items()) numbers[name] = number_from_json(number);
    return numbers;
  } else {
    return value.get<Value>();
  }
}

template <typename Struct, typename Value>
[[nodiscard]] bool is_default(const Value& value, Value Struct::*member) {
  if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (std::equality_comparable<Value>) {
    return value == Struct().*member;
  } else {
    return false;
  }
}

template <typename Struct, typename Value>
void put_key(Json& object, const std::type_identity_t<Struct>& from, const Key<Struct, Value>& key) {
  const Value& value = from.*key.member;
  if constexpr (is_optional<Value>) {
    if (value) object[key.name] = value_to_json(*value);
  } else {
    if (key.presence != Presence::unless_default || !is_default(value, key.member))
      object[key.name] = value_to_json(value);
  }
}

template <typename Struct, typename Value>
void take_key(const Json& object, std::type_identity_t<Struct>& into, const Key<Struct, Value>& key) {
  const auto found = object.find(key.name);
  if constexpr (is_optional<Value>) {
    if (found != object.end()) into.*key.member = value_from_json<typename Value::value_type>(*found);
  } else {
    if (found != object.end()) {
      into.*key.member = value_from_json<Value>(*found);
    } else if (key.presence == Presence::required) {
      static_cast<void>(object.at(key.name));  // throws, and names the key
    }
  }
}

}  // namespace detail

/// Adds keys (a std::tuple of Key) to an object. Numbers that are not finite are texts, see number_to_json().
template <typename Struct, typename... Keys>
void put_keys(Json& object, const Struct& from, const std::tuple<Keys...>& keys) {
  std::apply([&](const auto&... key) { (detail::put_key(object, from, key), ...); }, keys);
}

/// The inverse. Throws Json::exception when a key is missing or its value has another type, and
/// Error(bad_file) for text that is not a number or not the name of an enumerator.
template <typename Struct, typename... Keys>
void take_keys(const Json& object, Struct& into, const std::tuple<Keys...>& keys) {
  std::apply([&](const auto&... key) { (detail::take_key(object, into, key), ...); }, keys);
}

template <HasKeys T>
[[nodiscard]] Json to_json(const T& value) {
  Json object = Json::object();
  put_keys(object, value, keys_of(std::type_identity<T>{}));
  return object;
}

}  // namespace bitrift::record

/// A struct with keys is an object; see keys_of().
template <bitrift::record::HasKeys T>
struct nlohmann::adl_serializer<T> {
  static void to_json(bitrift::record::Json& value, const T& from) { value = bitrift::record::to_json(from); }
  static void from_json(const bitrift::record::Json& value, T& into) {
    bitrift::record::take_keys(value, into, keys_of(std::type_identity<T>{}));
  }
};
