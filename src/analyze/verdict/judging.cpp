#include "analyze/verdict/judging.h"

namespace bitrift::analyze {

Judging judging_of(const record::CampaignSpec& spec) {
  Judging judging;
  judging.judge = spec.judge;
  judging.metrics = spec.metrics;
  judging.level = spec.level;
  judging.links_alter = spec.strata.wire.has_value();
  judging.links_fail = spec.strata.link.has_value();
  if (!spec.strata.process) return judging;
  for (const record::Arm& arm : spec.arms) judging.recoveries.emplace(arm.name, arm.recovery);
  return judging;
}

}  // namespace bitrift::analyze
