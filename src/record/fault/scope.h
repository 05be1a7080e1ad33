// Which replicas, or which pipeline stage, load the altered file.
#pragma once

#include <vector>

#include "record/json/json.h"

namespace bitrift::record {

/// By default all.
struct Scope {
  int count = 0;              ///< this many replicas, drawn for each fault; 0: `replicas` says which
  std::vector<int> replicas;  ///< ascending; both empty: all
  int stage = -1;             ///< the one pipeline stage; -1: all of them
  [[nodiscard]] bool all() const noexcept { return count == 0 && replicas.empty() && stage < 0; }
  bool operator==(const Scope&) const = default;
};

/// {"replicas": 2}, {"replicas": [0, 3]} or {"stage": 1}, as its schema has it.
[[nodiscard]] Scope scope_from_json(const Json& value);
[[nodiscard]] Json to_json(const Scope& scope);

}  // namespace bitrift::record
