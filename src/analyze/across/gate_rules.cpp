#include "analyze/across/gate_rules.h"

#include "record/json/schema.h"

namespace bitrift::analyze {
namespace {

using record::Json;

GateFamily family_from(const Json& value) {
  GateFamily family;
  family.outcomes = value.at("outcomes").get<std::vector<record::OutcomeClass>>();
  if (value.contains("by")) {
    for (const Json& name : value["by"]) {
      if (name != "arm") family.by.push_back(name.get<std::string>());
    }
  }
  if (value.contains("where"))
    family.where = value["where"].get<std::map<std::string, std::vector<std::string>>>();
  family.tolerance = value.value("tolerance_points", 0.0) / 100;
  if (value.contains("must_see_points")) family.must_see = value["must_see_points"].get<double>() / 100;
  return family;
}

}  // namespace

GateRules gate_rules_from(const record::Document& document) {
  record::check_schema(document, record::shipped_schema("gate"));
  GateRules rules;
  rules.alpha = document.value.value("alpha", rules.alpha);
  if (!document.value.contains("families")) return rules;
  rules.families.clear();
  for (const Json& family : document.value["families"]) rules.families.push_back(family_from(family));
  return rules;
}

}  // namespace bitrift::analyze
