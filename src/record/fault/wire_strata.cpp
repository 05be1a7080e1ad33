#include "record/fault/wire_strata.h"

namespace bitrift::record {

WireStrata wire_strata_from(const Document& document) {
  const Json& value = document.value.at("strata").at("wire");
  WireStrata strata;
  value.at("fields").get_to(strata.fields);
  strata.kinds = value.value("kinds", strata.kinds);
  if (value.contains("steps")) strata.steps = step_range_from(document, "/strata/wire/steps");
  if (value.contains("messages")) strata.messages = message_map_from_json(value["messages"]);
  return strata;
}

Json to_json(const WireStrata& strata) {
  Json value = {{"fields", strata.fields}, {"kinds", strata.kinds}};
  if (strata.steps) value["steps"] = to_json(*strata.steps);
  if (strata.messages) value["messages"] = to_json(*strata.messages);
  return value;
}

}  // namespace bitrift::record
