#include "record/sampling.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::record {

const char* outcome_key(OutcomeClass outcome) noexcept {
  return outcome == OutcomeClass::sdc ? "sdc" : name_of(outcome);
}

OutcomeClass outcome_from_key(const std::string& key) {
  for (const OutcomeClass outcome : outcome_classes) {
    if (key == outcome_key(outcome)) return outcome;
  }
  fail(ErrorCode::bad_file, "'{}' is not an outcome; use masked, sdc or crash", key);
}

Sampling sampling_from(const Document& document, std::size_t strata, std::size_t arms) {
  const Json& value = document.value.at("sampling");
  Sampling sampling;
  sampling.target = value.value("target", sampling.target);
  value.at("half_width").get_to(sampling.half_width);
  if (value.contains("outcomes")) {
    sampling.outcomes.clear();
    for (const auto& key : value["outcomes"]) sampling.outcomes.push_back(outcome_from_key(key));
    std::sort(sampling.outcomes.begin(), sampling.outcomes.end());
  }
  if (value.contains("max_trials")) sampling.max_trials = value["max_trials"].get<std::uint64_t>();
  sampling.pilot = value.value("pilot", sampling.pilot);
  sampling.allocation = value.value("allocation", sampling.allocation);
  if (sampling.max_trials && *sampling.max_trials / sampling.pilot < strata * arms) {
    fail(ErrorCode::bad_input,
         "{}: sampling.max_trials: round 0 alone may take {} trials (pilot {} x {} strata x {} arms), found "
         "{}; raise it or lower sampling.pilot",
         document.place("/sampling/max_trials"), sampling.pilot * strata * arms, sampling.pilot, strata, arms,
         *sampling.max_trials);
  }
  return sampling;
}

Json to_json(const Sampling& sampling) {
  Json outcomes = Json::array();
  for (const OutcomeClass outcome : sampling.outcomes) outcomes.push_back(outcome_key(outcome));
  Json value = {{"target", sampling.target},
                {"half_width", sampling.half_width},
                {"outcomes", outcomes},
                {"pilot", sampling.pilot},
                {"allocation", sampling.allocation}};
  if (sampling.max_trials) value["max_trials"] = *sampling.max_trials;
  return value;
}

}  // namespace bitrift::record
