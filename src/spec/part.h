// An object of a spec as it is read: its keys, and where each was written. Inside spec/ only.
#pragma once

#include <initializer_list>
#include <string>
#include <tuple>

#include "record/json/keys.h"

namespace bitrift::record {

/// An object of a document that has passed the schema.
class Part {
 public:
  Part(const Document& document, std::string pointer);
  [[nodiscard]] const Json& value() const noexcept { return value_; }
  [[nodiscard]] bool has(const char* key) const { return value_.contains(key); }
  template <typename Value>
  void take(const char* key, Value& into) const {
    if (has(key)) into = value_.at(key).get<Value>();
  }
  /// A key that the chosen name does not use is a mistake, not a detail.
  void refuse(std::initializer_list<const char*> keys, const std::string& owner) const;
  void require(std::initializer_list<const char*> keys, const std::string& owner) const;
  /// "spec.json:3: model.name".
  [[nodiscard]] std::string where(const std::string& key = "") const;

 private:
  const Document& document_;
  std::string pointer_;
  const Json& value_;
};

/// Adds a key unless it has its default.
template <typename Value>
void put(Json& object, const char* key, const Value& value, const Value& usual) {
  if (!(value == usual)) object[key] = value;
}

/// Reads those of the keys (a tuple of Key) that exist.
template <typename Spec, typename... Keys>
void take_all(const Part& part, const std::tuple<Keys...>& keys, Spec& into) {
  std::apply([&](const auto&... key) { (part.take(key.name, into.*key.member), ...); }, keys);
}

/// Adds those of the keys that differ from their defaults.
template <typename Spec, typename... Keys>
void put_all(Json& object, const std::tuple<Keys...>& keys, const Spec& value) {
  const Spec usual;
  std::apply([&](const auto&... key) { (put(object, key.name, value.*key.member, usual.*key.member), ...); },
             keys);
}

}  // namespace bitrift::record
