#include "record/fault/link_strata.h"

namespace bitrift::record {

LinkStrata link_strata_from(const Document& document) {
  const Json& value = document.value.at("strata").at("link");
  LinkStrata strata;
  strata.kinds = value.value("kinds", strata.kinds);
  if (value.contains("steps")) strata.steps = step_range_from(document, "/strata/link/steps");
  strata.delay = value.value("delay", strata.delay);
  if (value.contains("steps_per_epoch"))
    strata.steps_per_epoch = value["steps_per_epoch"].get<std::int64_t>();
  return strata;
}

Json to_json(const LinkStrata& strata) {
  Json value = {{"kinds", strata.kinds}, {"delay", strata.delay}};
  if (strata.steps) value["steps"] = to_json(*strata.steps);
  if (strata.steps_per_epoch) value["steps_per_epoch"] = *strata.steps_per_epoch;
  return value;
}

}  // namespace bitrift::record
