// A summary as text and as JSON.
#pragma once

#include <string>

#include "analyze/summary.h"
#include "record/json/json.h"

namespace bitrift::analyze {

/// Plain text with aligned columns, at most 100 wide with names of usual length: a header line, then group, n
/// and the rates in % with the chosen interval; then, if requested, the losses of accuracy; at the end the
/// counted reasons, and what the intervals hold for.
[[nodiscard]] std::string table(const Summary& summary);
/// Schema "bitrift/summary/2" (docs/statistics.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const Summary& summary);

}  // namespace bitrift::analyze
