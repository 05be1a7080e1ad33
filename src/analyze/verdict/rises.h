// How much worse a run ended than the golden run of its data order, in absolute units.
#pragma once

#include <vector>

#include "analyze/verdict/controls.h"
#include "record/metric.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// One value for each metric; NaN if the run lacks it.
using MetricValues = std::vector<double>;

/// The badness of each metric: see badness().
[[nodiscard]] MetricValues badness_of(const record::Evaluation& evaluation,
                                      const std::vector<record::Metric>& metrics);

/// The evaluation at the horizon, as judged. The run must have reached it.
[[nodiscard]] record::Evaluation at_horizon(const record::TrialRecord& row, const ArmControls& controls,
                                            design::Judge judge);

/// For each judged metric, the badness of the run at the horizon minus that of its golden run. The run must
/// have reached the horizon.
[[nodiscard]] MetricValues rises_of(const record::TrialRecord& row, const ArmControls& controls,
                                    design::Judge judge);

}  // namespace bitrift::analyze
