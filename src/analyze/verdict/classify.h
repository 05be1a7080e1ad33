// The rule that turns a row into an outcome (docs/outcomes.md).
#pragma once

#include "analyze/verdict/controls.h"
#include "analyze/verdict/judging.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The first that holds: unrecovered; rejected; exception or signal; hang; nonfinite; bitwise;
/// low_test_accuracy, high_test_loss, training_only (that metric is outside at the horizon: Calibration);
/// reconverged (outside at an earlier evaluation only); within_noise. A run that fails after the horizon is
/// judged by its evaluations up to it; no row says when an exception, a signal or a hang happened, so those
/// always count. Throws Error(conflict) when a finished run has fewer or more evaluations than the golden run
/// or its data order has no golden run, Error(bad_file) when a campaign does not write such a row.
[[nodiscard]] record::Outcome classify(const record::TrialRecord& row, const ArmControls& controls,
                                       const Judging& judging);

}  // namespace bitrift::analyze
