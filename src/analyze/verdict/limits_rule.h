// The rule of earlier versions: limits of every metric by itself. For comparison (`analyze --rule 1`).
#pragma once

#include "analyze/verdict/calibration.h"
#include "analyze/verdict/envelope.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// First that holds: sharp_degrade (training metrics outside from the first evaluation to the last);
/// slow_degrade (training metrics inside first, left later, outside from there to the end); low_test_accuracy
/// (final test accuracy outside, final training metrics inside); degraded (any other final metric outside);
/// reconverged; within_noise. Equal to a limit is inside. run: as long as the envelope.
[[nodiscard]] record::Outcome judge_by_limits(const Trajectory& run, const Envelope& envelope);

}  // namespace bitrift::analyze
