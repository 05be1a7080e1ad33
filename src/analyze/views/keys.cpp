#include "analyze/views/keys.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::analyze {

std::vector<std::string> dimension_names(const std::vector<Dimension>& by) {
  std::vector<std::string> names;
  names.reserve(by.size());
  for (const Dimension dimension : by) names.emplace_back(name_of(dimension));
  return names;
}

std::vector<std::string> usual_dimensions(const record::CampaignSpec& spec) {
  return {"strategy", spec.strata.models.empty() ? "field" : "stratum"};
}

std::vector<Dimension> dimensions(const std::vector<std::string>& by, const record::CampaignSpec& spec) {
  std::vector<Dimension> result;
  const auto add = [&](Dimension one) {
    if (std::find(result.begin(), result.end(), one) == result.end()) result.push_back(one);
  };
  add(Dimension::strategy);
  // Bases are a factor: no rate is averaged over them.
  if (spec.bases.size() > 1) add(Dimension::base);
  for (const std::string& name : by) {
    if (name == "layer") {
      fail(ErrorCode::bad_input,
           "--by layer: the strata of this campaign are roles x fields, and how many bits of a stratum a "
           "layer holds is "
           "not in its rows; give strategy, role, field or stratum");
    }
    const auto dimension = find_named<Dimension>(name);
    if (!dimension) fail(ErrorCode::bad_input, "--by {}: give strategy, base, role, field or stratum", name);
    add(*dimension);
  }
  // Fault models are not parts of one population: each has its own line.
  if (spec.strata.models.size() > 1) add(Dimension::stratum);
  return result;
}

Keys::Keys(const record::CampaignSpec& spec, const std::vector<Dimension>& by)
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
  const bool by_base = std::find(by_.begin(), by_.end(), Dimension::base) != by_.end();
  std::map<std::string, std::string> key;
  for (const Dimension dimension : by_) {
    if (dimension == Dimension::strategy) key["arm"] = by_base && !arm.stem.empty() ? arm.stem : arm.name;
    if (dimension == Dimension::base) key["base"] = spec_.base_of(arm).name;
    if (dimension == Dimension::role) key["role"] = stratum->role;
    if (dimension == Dimension::field) key["field"] = stratum->field;
    if (dimension == Dimension::stratum) key["stratum"] = stratum->name;
  }
  return key;
}

}  // namespace bitrift::analyze
