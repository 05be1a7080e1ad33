// What the harm of an arm's trials is counted from, and the limit that it is held against, in absolute units.
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/verdict/trust.h"
#include "record/json/json.h"
#include "record/metric.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// A value of each judged metric of an arm, in the order of ArmReference::metrics. NaN where a run lacks the
/// metric.
using MetricValues = std::vector<double>;

/// The clean runs of one arm at the horizon. A *rise* is the badness of a run (-accuracy, or ln(loss)) less
/// that of the golden run of its data order.
struct ArmReference {
  std::vector<record::Metric> metrics;  ///< judged
  MetricValues limit;                   ///< Calibration::limit_rises()
  std::vector<MetricValues> clean;      ///< badness of every envelope run, then of every held-out run
  std::vector<MetricValues> golden;     ///< badness, by data order
  std::vector<std::vector<MetricValues>> jitter;  ///< by data order: the rises of its jitter runs
};

/// Runs that crashed are left out. trust: of the same rows, by Rule::conformal.
[[nodiscard]] ArmReference arm_reference(const std::vector<record::TrialRecord>& rows, const std::string& arm,
                                         const Trust& trust);

/// The rises of a run that reached the horizon.
[[nodiscard]] MetricValues rises_of(const record::TrialRecord& row, const ArmControls& controls,
                                    record::Judge judge);

/// As docs/ci.md describes it.
[[nodiscard]] record::Json to_json(const ArmReference& reference);
/// Throws Json::exception, and Error(bad_file) on lists that do not fit together.
[[nodiscard]] ArmReference arm_reference_from_json(const record::Json& value);
/// NaN is null.
[[nodiscard]] record::Json values_to_json(const MetricValues& values);
[[nodiscard]] MetricValues values_from_json(const record::Json& value);

}  // namespace bitrift::analyze
