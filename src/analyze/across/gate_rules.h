// What may not get worse, and by how much it may.
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
  std::vector<std::string> by = {};  ///< base, role, field, stratum; arms are never pooled
  std::map<std::string, std::vector<std::string>> where;  ///< "arm" or one of these to the values that count
  double tolerance = 0;                                   ///< accepted increase, as a share
  std::optional<double> must_see = {};  ///< as a share; an increase so large must not pass unseen
};

struct GateRules {
  double alpha = 0.05;  ///< of all lines together
  std::vector<GateFamily> families = {GateFamily{}};
};

/// Checks a document against the schema "gate". Throws Error(bad_input) with file, line and key.
[[nodiscard]] GateRules gate_rules_from(const record::Document& document);

}  // namespace bitrift::analyze
