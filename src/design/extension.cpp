#include "design/extension.h"

#include <algorithm>

#include "core/error.h"
#include "record/json/json_diff.h"

namespace bitrift::design {
namespace {

using record::Json;

constexpr const char* phases = "/strata/process/phases";
// Lists that may grow at the end.
constexpr const char* growing_lists[] = {"/arms",          "/strata/roles", "/strata/fields",
                                         "/strata/models", phases,          "/strata/process/every"};

bool begins_with(const Json& list, const Json& first) {
  return list.size() >= first.size() && std::equal(first.begin(), first.end(), list.begin());
}

void forget(Json& one, Json& other, const Json::json_pointer& pointer) {
  for (Json* value : {&one, &other}) value->at(pointer.parent_pointer()).erase(pointer.back());
}

// Keys that may differ are removed from both; the rest must be equal.
void forget_growth(Json& before, Json& after) {
  const bool storms = before.contains(Json::json_pointer("/strata/process/every"));
  for (const char* const list : growing_lists) {
    // A storm draws from all phases, so with another one its draws would be others.
    if (storms && list == phases) continue;
    const Json::json_pointer pointer(list);
    if (before.contains(pointer) && after.contains(pointer) &&
        begins_with(after.at(pointer), before.at(pointer))) {
      forget(before, after, pointer);
    }
  }
  const Json::json_pointer trials("/trials_per_stratum");
  if (before.contains(trials) && after.contains(trials) && after.at(trials) >= before.at(trials))
    forget(before, after, trials);
  const Json::json_pointer half("/sampling/half_width");
  if (before.contains(half) && after.contains(half) && after.at(half) <= before.at(half))
    forget(before, after, half);
  const Json::json_pointer most("/sampling/max_trials");
  if (!before.contains(most) || !after.contains("sampling")) return;
  if (!after.contains(most)) before.at("sampling").erase("max_trials");  // no budget any more
  if (after.contains(most) && after.at(most) >= before.at(most)) forget(before, after, most);
}

}  // namespace

std::optional<std::string> extension_problem(const CampaignSpec& before, const CampaignSpec& after) {
  Json one = to_json(before);
  Json other = to_json(after);
  forget_growth(one, other);
  if (const auto difference = campaign::json_difference(one, other))
    return fmt::format("{} was {}, is now {}", difference->key, difference->first, difference->second);
  const bool totals = before.sampling && before.sampling->target == record::SamplingTarget::totals;
  if (totals && before.strata->strata().size() != after.strata->strata().size()) {
    return "strata cannot be added with sampling.target totals: the rounds so far were planned for the total "
           "of the earlier strata, and could not pick faults of others";
  }
  return std::nullopt;
}

}  // namespace bitrift::design
