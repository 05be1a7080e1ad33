// The rates that may not get worse, and by how much they may.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// Lines that are tested: for each outcome, one for every value of `by`.
struct GateFamily {
  std::vector<record::OutcomeClass> outcomes = {record::OutcomeClass::sdc, record::OutcomeClass::crash};
  std::vector<std::string> by = {};  ///< base, role, field or stratum; arms are never pooled
  std::map<std::string, std::vector<std::string>> where;  ///< from "arm" or one of these to the values that
                                                          ///< count
  double tolerance = 0;                                   ///< accepted increase, as a share
  std::optional<double> must_see = {};  ///< as a share; an increase of this size must not pass unseen
};

struct GateRules {
  double alpha = 0.05;  ///< error probability of all lines together
  std::vector<GateFamily> families = {GateFamily{}};
};

/// Checks a document against the schema "gate". Throws Error(bad_input) with file, line and key.
[[nodiscard]] GateRules gate_rules_from(const record::Document& document);

}  // namespace bitrift::analyze
