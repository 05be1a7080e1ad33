#include "analyze/views/keys.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::analyze {

std::vector<std::string> usual_dimensions(const record::CampaignSpec& spec) {
  return {"strategy", spec.strata.models.empty() ? "field" : "stratum"};
}

std::vector<std::string> dimensions(const std::vector<std::string>& by, const record::CampaignSpec& spec) {
  std::vector<std::string> result = {"strategy"};
  // Bases are a factor: no rate is averaged over them.
  if (spec.bases.size() > 1) result.emplace_back("base");
  for (const std::string& name : by) {
    if (name == "layer") {
      fail(ErrorCode::bad_input,
           "--by layer: the strata of this campaign are roles x fields, and how many bits of a stratum a "
           "layer holds is "
           "not in its rows; give strategy, role, field or stratum");
    }
    if (name != "strategy" && name != "base" && name != "role" && name != "field" && name != "stratum") {
      fail(ErrorCode::bad_input, "--by {}: give strategy, base, role, field or stratum", name);
    }
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  // Fault models are not parts of one population: each has its own line.
  if (spec.strata.models.size() > 1 && std::find(result.begin(), result.end(), "stratum") == result.end())
    result.emplace_back("stratum");
  return result;
}

Keys::Keys(const record::CampaignSpec& spec, const std::vector<std::string>& by)
    : spec_(spec), by_(by), strata_(record::strata_of(spec.strata)) {}

std::map<std::string, std::string> Keys::of(const std::string& arm_name,
                                            const std::string& stratum_name) const {
  const record::Arm& arm = spec_.arms[spec_.arm_index(arm_name)];
  const auto stratum = std::find_if(strata_.begin(), strata_.end(),
                                    [&](const record::Stratum& one) { return one.name == stratum_name; });
  if (stratum == strata_.end()) {
    fail(ErrorCode::conflict, "the journal has rows of stratum '{}', which the campaign does not have",
         stratum_name);
  }
  const bool by_base = std::find(by_.begin(), by_.end(), "base") != by_.end();
  std::map<std::string, std::string> key;
  for (const std::string& name : by_) {
    if (name == "strategy") key["arm"] = by_base && !arm.stem.empty() ? arm.stem : arm.name;
    if (name == "base") key["base"] = spec_.base_of(arm).name;
    if (name == "role") key["role"] = stratum->role;
    if (name == "field") key["field"] = stratum->field;
    if (name == "stratum") key["stratum"] = stratum->name;
  }
  return key;
}

}  // namespace bitrift::analyze
