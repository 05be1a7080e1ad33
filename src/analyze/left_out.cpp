#include "analyze/left_out.h"

#include <algorithm>
#include <set>

#include "core/glob.h"

namespace bitrift::analyze {
namespace {

bool chosen(const record::UnreadTensor& one, const std::vector<std::string>& tensors,
            const std::vector<std::string>& roles) {
  const bool named = std::any_of(tensors.begin(), tensors.end(),
                                 [&](const auto& glob) { return glob_match(glob, one.tensor); });
  const bool state = one.role != "unknown" && one.role != "progress";
  return (tensors.empty() || named) &&
         (roles.empty() ? state || named : std::find(roles.begin(), roles.end(), one.role) != roles.end());
}

}  // namespace

std::vector<std::string> left_out(const record::CampaignSpec& spec) {
  std::set<std::string> names;
  for (const record::BaseFile& file : spec.files) {
    if (!file.unread) continue;
    for (const record::UnreadTensor& one : *file.unread) {
      const record::StrataSpec& strata = spec.strata;
      bool asked = strata.of_bits() && chosen(one, strata.tensors, strata.roles);
      for (const record::StratumModel& model : strata.models)
        asked = asked || chosen(one, model.model.tensors, model.model.roles);
      if (asked) names.insert(one.tensor);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace bitrift::analyze
