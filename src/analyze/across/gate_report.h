// What the gate found, for people and for CI servers.
#pragma once

#include <string>

#include "analyze/across/gate.h"
#include "record/json/json.h"

namespace bitrift::analyze {

/// A table, and one sentence at the end.
[[nodiscard]] std::string text(const GateReport& report);

/// GitHub-flavoured Markdown for a pull request: sentence and table, the rest collapsed. folder: of the
/// campaign, for the commands that replay faults.
[[nodiscard]] std::string markdown(const GateReport& report, const std::string& folder);

/// JUnit XML: a suite with a test case for each line; one that is worse or undecided has a failure. time:
/// when, as UTC in ISO 8601.
[[nodiscard]] std::string junit(const GateReport& report, const std::string& time);

/// Schema "bitrift/gate/1" (docs/ci.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const GateReport& report);

}  // namespace bitrift::analyze
