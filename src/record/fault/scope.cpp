#include "record/fault/scope.h"

#include <algorithm>

namespace bitrift::record {

Scope scope_from_json(const Json& value) {
  Scope scope;
  scope.stage = value.value("stage", scope.stage);
  if (!value.contains("replicas")) return scope;
  const Json& replicas = value.at("replicas");
  if (replicas.is_number()) {
    scope.count = replicas.get<int>();
  } else {
    scope.replicas = replicas.get<std::vector<int>>();
    std::sort(scope.replicas.begin(), scope.replicas.end());
  }
  return scope;
}

Json to_json(const Scope& scope) {
  Json value = Json::object();
  if (scope.count > 0) value["replicas"] = scope.count;
  if (!scope.replicas.empty()) value["replicas"] = scope.replicas;
  if (scope.stage >= 0) value["stage"] = scope.stage;
  return value;
}

}  // namespace bitrift::record
