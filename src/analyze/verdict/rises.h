// How much worse a run ended than the golden run of its data order, in absolute units.
#pragma once

#include <vector>

#include "analyze/verdict/controls.h"
#include "record/metric.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// A value of each of some metrics. NaN where a run lacks the metric.
using MetricValues = std::vector<double>;

/// Badness: -accuracy, or ln(loss).
[[nodiscard]] MetricValues badness_of(const record::Evaluation& evaluation,
                                      const std::vector<record::Metric>& metrics);

/// As judged, of a run that reached the horizon.
[[nodiscard]] record::Evaluation at_horizon(const record::TrialRecord& row, const ArmControls& controls,
                                            record::Judge judge);

/// Of a run that reached the horizon: its badness there less that of its golden run, of each judged metric.
[[nodiscard]] MetricValues rises_of(const record::TrialRecord& row, const ArmControls& controls,
                                    record::Judge judge);

}  // namespace bitrift::analyze
