#include "analyze/verdict/rises.h"

#include <limits>

#include "analyze/verdict/classify.h"

namespace bitrift::analyze {

MetricValues badness_of(const record::Evaluation& evaluation, const std::vector<record::Metric>& metrics) {
  MetricValues values;
  for (const record::Metric& metric : metrics) {
    const auto value = metric.value_in(evaluation);
    values.push_back(value ? badness(metric, *value) : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

record::Evaluation at_horizon(const record::TrialRecord& row, const ArmControls& controls,
                              design::Judge judge) {
  return judged(*row.result, judge).at(controls.horizon - 1);
}

MetricValues rises_of(const record::TrialRecord& row, const ArmControls& controls, design::Judge judge) {
  const auto& metrics = controls.calibration.value().metrics();
  MetricValues rises = badness_of(at_horizon(row, controls, judge), metrics);
  const CleanRun& golden = controls.golden.at(static_cast<std::size_t>(row.order));
  const MetricValues from = badness_of(golden.evaluations.at(controls.horizon - 1), metrics);
  for (std::size_t j = 0; j < rises.size(); ++j) rises[j] -= from[j];
  return rises;
}

}  // namespace bitrift::analyze
