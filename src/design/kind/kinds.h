// The kinds of fault that a campaign can study. A new one is added to the list in kinds.cpp.
#pragma once

#include "design/kind/kind.h"
#include "record/json/json.h"

namespace bitrift::design {

/// Reads the value at /strata of a document that obeys the schema. stored: of a campaign's folder; only such
/// a document holds facts from bitrift-train. Throws Error(bad_input) with file, line and key: several kinds
/// or none, and what the reader of each kind refuses.
[[nodiscard]] Strata strata_from(const record::Document& document, bool stored);

}  // namespace bitrift::design
