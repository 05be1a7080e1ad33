#include "analyze/verdict/judging.h"

namespace bitrift::analyze {

record::RecoverySpec Judging::recovery_of(const std::string& arm) const {
  const auto known = recoveries.find(arm);
  return known == recoveries.end() ? record::RecoverySpec{} : known->second;
}

Judging judging_of(const design::CampaignSpec& spec) {
  Judging judging;
  judging.judge = spec.judge;
  judging.metrics = spec.metrics;
  judging.level = spec.level;
  judging.strata = spec.strata;
  for (const design::Arm& arm : spec.arms) judging.recoveries.emplace(arm.name, arm.recovery);
  return judging;
}

}  // namespace bitrift::analyze
