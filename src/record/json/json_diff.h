// The first difference between two JSON values.
#pragma once

#include <optional>
#include <string>

#include "record/json/json.h"

namespace bitrift::campaign {

/// The first difference in key order (arrays by index): dotted key and both values as text, "absent" when one
/// side lacks it.
struct JsonDifference {
  std::string key;  ///< "base.train.seed"; "" for the whole value
  std::string first, second;
};

/// nullopt when both are equal. Texts longer than 120 characters are cut.
[[nodiscard]] std::optional<JsonDifference> json_difference(const record::Json& first,
                                                            const record::Json& second);

}  // namespace bitrift::campaign
