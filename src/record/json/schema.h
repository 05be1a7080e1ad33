// Checks JSON documents against the schemas that ship with bitrift.
#pragma once

#include <string>
#include <string_view>

#include "record/json/json.h"

namespace bitrift::record {

/// Checks a document (with a pointer: only the value there) against a JSON Schema, draft 7. Throws
/// Error(bad_input) whose one line names file, line, key, what was expected and what was found; the first
/// failure in document order is reported.
void check_schema(const Document& document, const Json& schema, const std::string& pointer = "");

/// The schemas that ship with bitrift, by name: "campaign", "train", "fault-manifest". Compiled in from
/// campaigns/schema.
[[nodiscard]] const Json& shipped_schema(std::string_view name);

}  // namespace bitrift::record
