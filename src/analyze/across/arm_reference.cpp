#include "analyze/across/arm_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze/verdict/classify.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::TrialKind;
using record::TrialRecord;

std::vector<MetricValues> list_from_json(const Json& value) {
  std::vector<MetricValues> list;
  for (const Json& one : value) list.push_back(values_from_json(one));
  return list;
}

Json list_to_json(const std::vector<MetricValues>& list) {
  Json values = Json::array();
  for (const MetricValues& one : list) values.push_back(values_to_json(one));
  return values;
}

bool all_finite_values(const MetricValues& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

// A run may lack a metric, which is NaN; no clean or golden run is infinite, and every limit is a number.
void check_values(const ArmReference& reference) {
  const auto number_or_none = [](const MetricValues& values) {
    return std::none_of(values.begin(), values.end(), [](double value) { return std::isinf(value); });
  };
  bool right =
      all_finite_values(reference.limit) &&
      std::all_of(reference.limit.begin(), reference.limit.end(), [](double limit) { return limit >= 0; });
  right = right && std::all_of(reference.golden.begin(), reference.golden.end(), all_finite_values);
  right = right && std::all_of(reference.clean.begin(), reference.clean.end(), number_or_none);
  for (const auto& order : reference.jitter)
    right = right && std::all_of(order.begin(), order.end(), number_or_none);
  if (!right) fail(ErrorCode::bad_file, "\"references\" holds a limit or a clean run that is not finite");
}

void check_lengths(const ArmReference& reference) {
  const std::size_t metrics = reference.metrics.size();
  const auto fits = [metrics](const MetricValues& values) { return values.size() == metrics; };
  const auto all_fit = [&](const std::vector<MetricValues>& list) {
    return std::all_of(list.begin(), list.end(), fits);
  };
  if (metrics > 0 && fits(reference.limit) && all_fit(reference.clean) && all_fit(reference.golden) &&
      !reference.golden.empty() && reference.jitter.size() == reference.golden.size() &&
      std::all_of(reference.jitter.begin(), reference.jitter.end(), all_fit))
    return;
  fail(ErrorCode::bad_file,
       "the lists of \"references\" have other lengths than its \"metrics\" and \"golden\"");
}

}  // namespace

ArmReference arm_reference(const std::vector<TrialRecord>& rows, const std::string& arm, const Trust& trust) {
  const ArmControls& controls = trust.controls.at(arm);
  const Calibration& calibration = controls.calibration.value();
  ArmReference reference;
  reference.metrics = calibration.metrics();
  reference.limit = calibration.limit_rises();
  reference.clean.resize(calibration.runs());
  for (const std::vector<double>& column : calibration.clean()) {
    for (std::size_t i = 0; i < column.size(); ++i) reference.clean[i].push_back(column[i]);
  }
  for (const CleanRun& golden : controls.golden)
    reference.golden.push_back(badness_of(golden.evaluations.at(controls.horizon - 1), reference.metrics));
  reference.jitter.resize(controls.golden.size());
  for (const TrialRecord& row : rows) {
    if (row.id.arm != arm || (row.kind != TrialKind::held_out && row.kind != TrialKind::jitter)) continue;
    if (classify(row, controls, trust.judging).outcome_class() == record::OutcomeClass::crash) continue;
    if (row.kind == TrialKind::jitter) {
      reference.jitter.at(static_cast<std::size_t>(row.order))
          .push_back(rises_of(row, controls, trust.judging.judge));
    } else {
      reference.clean.push_back(
          badness_of(at_horizon(row, controls, trust.judging.judge), reference.metrics));
    }
  }
  return reference;
}

Json values_to_json(const MetricValues& values) {
  Json list = Json::array();
  for (const double value : values)
    list.push_back(std::isnan(value) ? Json() : record::number_to_json(value));
  return list;
}

MetricValues values_from_json(const Json& value) {
  MetricValues values;
  for (const Json& one : value) {
    values.push_back(one.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                   : record::number_from_json(one));
  }
  return values;
}

Json to_json(const ArmReference& reference) {
  Json jitter = Json::array();
  for (const auto& order : reference.jitter) jitter.push_back(list_to_json(order));
  return {{"metrics", reference.metrics},
          {"limit", values_to_json(reference.limit)},
          {"clean", list_to_json(reference.clean)},
          {"golden", list_to_json(reference.golden)},
          {"jitter", std::move(jitter)}};
}

ArmReference arm_reference_from_json(const Json& value) {
  ArmReference reference;
  reference.metrics = value.at("metrics").get<std::vector<record::Metric>>();
  reference.limit = values_from_json(value.at("limit"));
  reference.clean = list_from_json(value.at("clean"));
  reference.golden = list_from_json(value.at("golden"));
  for (const Json& order : value.at("jitter")) reference.jitter.push_back(list_from_json(order));
  check_lengths(reference);
  check_values(reference);
  return reference;
}

}  // namespace bitrift::analyze
