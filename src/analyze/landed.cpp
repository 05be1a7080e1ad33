#include "analyze/landed.h"

#include "core/error.h"

namespace bitrift::analyze {

void refuse_unless_landed(const record::TrialRecord& row) {
  if (row.kind != record::TrialKind::trial || row.landed || row.failure) return;
  if (row.result && row.result->status == record::RunStatus::rejected) return;
  fail(ErrorCode::conflict,
       "row {}: its fault did not land (`landed` is false), so its outcome does not show the effect of the "
       "fault; run the "
       "campaign without drills, in a folder of its own",
       row.id.text());
}

}  // namespace bitrift::analyze
