#include "analyze/verdict/judging.h"

namespace bitrift::analyze {

Judging judging_of(const record::CampaignSpec& spec) {
  Judging judging;
  judging.judge = spec.judge;
  judging.metrics = spec.metrics;
  judging.level = spec.level;
  return judging;
}

}  // namespace bitrift::analyze
