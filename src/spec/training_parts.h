// The parts of a training spec, read and written. Inside record/ only.
#pragma once

#include <initializer_list>
#include <string>
#include <tuple>

#include "spec/training_spec.h"

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
  /// A key that the chosen name has no use for is a mistake, not a detail.
  void refuse(std::initializer_list<const char*> keys, const std::string& owner) const;
  void require(std::initializer_list<const char*> keys, const std::string& owner) const;
  /// "spec.json:3: model.name".
  [[nodiscard]] std::string where(const std::string& key = "") const;

 private:
  const Document& document_;
  std::string pointer_;
  const Json& value_;
};

[[nodiscard]] ModelSpec read_model(const Part& part);
[[nodiscard]] DataSpec read_data(const Part& part, const ModelSpec& model);
[[nodiscard]] OptimizerSpec read_optimizer(const Part& part);
[[nodiscard]] ScheduleSpec read_schedule(const Part& part);
[[nodiscard]] GuardSpec read_guards(const Part& part, const OptimizerSpec& optimizer);
[[nodiscard]] Json to_json(const ModelSpec& model);
[[nodiscard]] Json to_json(const DataSpec& data);
[[nodiscard]] Json to_json(const OptimizerSpec& optimizer);
[[nodiscard]] Json to_json(const ScheduleSpec& schedule);

/// Adds a key unless it has its default.
template <typename Value>
void put(Json& object, const char* key, const Value& value, const Value& usual) {
  if (!(value == usual)) object[key] = value;
}

/// A key of a part, and the member that it fills.
template <typename Spec, typename Value>
struct Key {
  const char* name;
  Value Spec::*member;
};
template <typename Spec, typename Value>
Key(const char*, Value Spec::*) -> Key<Spec, Value>;

/// Reads those of the keys (a tuple of Key) that are there.
template <typename Spec, typename... Keys>
void take_all(const Part& part, const std::tuple<Keys...>& keys, Spec& into) {
  std::apply([&](const auto&... key) { (part.take(key.name, into.*key.member), ...); }, keys);
}

/// Adds those of the keys that have no default.
template <typename Spec, typename... Keys>
void put_all(Json& object, const std::tuple<Keys...>& keys, const Spec& value) {
  const Spec usual;
  std::apply([&](const auto&... key) { (put(object, key.name, value.*key.member, usual.*key.member), ...); },
             keys);
}

}  // namespace bitrift::record
