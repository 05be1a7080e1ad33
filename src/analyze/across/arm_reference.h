// The clean runs that the harm of an arm's trials is measured from, and its limit, in absolute units.
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/verdict/rises.h"
#include "analyze/verdict/trust.h"
#include "record/json/json.h"
#include "record/metric.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The clean runs of one arm at the horizon: their badness, and how much worse than the golden run they ended
/// (rises_of()).
struct ArmReference {
  std::vector<record::Metric> metrics;  ///< the judged metrics; all values below are in this order
  MetricValues limit;                   ///< Calibration::limit_rises()
  std::vector<MetricValues> clean;      ///< badness of every envelope run, then of every held-out run
  std::vector<MetricValues> golden;     ///< badness, by data order
  std::vector<std::vector<MetricValues>> jitter;  ///< by data order: the rises of its jitter runs
};

/// Runs that crashed are left out. trust: of the same rows.
[[nodiscard]] ArmReference arm_reference(const std::vector<record::TrialRecord>& rows, const std::string& arm,
                                         const Trust& trust);

/// The JSON form that docs/ci.md describes.
[[nodiscard]] record::Json to_json(const ArmReference& reference);
/// Throws Json::exception, and Error(bad_file) on lists that do not fit together.
[[nodiscard]] ArmReference arm_reference_from_json(const record::Json& value);
/// NaN is null.
[[nodiscard]] record::Json values_to_json(const MetricValues& values);
[[nodiscard]] MetricValues values_from_json(const record::Json& value);

}  // namespace bitrift::analyze
