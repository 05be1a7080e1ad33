#include "analyze/views/trials_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/ranges.h>

#include "analyze/verdict/classify.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Json;

template <typename T>
bool lets_pass(const std::set<T>& wanted, const T& value) {
  return wanted.empty() || wanted.contains(value);
}

TrialLine line_of(const record::TrialRecord& row, const ArmControls& controls, const Judging& judging) {
  TrialLine line;
  line.row = &row;
  line.outcome = classify(row, controls, judging);
  const auto order = static_cast<std::size_t>(row.order);
  line.golden = controls.golden.at(order).evaluations.at(controls.horizon - 1);
  if (!row.result || row.result->replicas.empty()) return line;
  const Trajectory evaluations = judged(*row.result, judging.judge);
  if (evaluations.size() >= controls.horizon) line.at = evaluations[controls.horizon - 1];
  return line;
}

// Larger is worse.
double harm(const TrialLine& line, const record::Metric& metric) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  if (!line.at) return none;
  const auto value = metric.value_in(*line.at);
  if (!value) return none;
  if (!std::isfinite(*value)) return -none;
  return metric.better() == record::Better::lower ? *value : -*value;
}

// null where there is no evaluation or it lacks the metric.
Json metrics_of(const std::optional<record::Evaluation>& evaluation,
                const std::vector<record::Metric>& shown) {
  Json metrics = Json::object();
  for (const record::Metric& metric : shown) {
    const auto value = evaluation ? metric.value_in(*evaluation) : std::nullopt;
    metrics[metric.name()] = value ? record::number_to_json(*value) : Json();
  }
  return metrics;
}

// The columns that only one kind of fault has.

void add_columns(const record::FaultList& bits, const TrialLine&, Json& value) {
  if (!bits.empty()) value = record::to_json(bits.at(0));
}

// Which ranks were to fail and where, and what happened.
void add_columns(const std::vector<record::ProcessFault>& faults, const TrialLine& line, Json& value) {
  value["victims"] = Json::array();
  for (const record::ProcessFault& fault : faults) value["victims"].push_back(fault.rank);
  const record::ProcessFault& last = faults.back();
  value["phase"] = last.phase;
  value["step"] = last.step;
  value["point"] = last.point;
  value["how"] = last.how;
  value["recovered"] = line.outcome.recovered;
  value["recoveries"] = Json::array();
  if (!line.row->result) return;
  for (const record::Recovery& recovery : line.row->result->recoveries)
    value["recoveries"].push_back(record::to_json(recovery));
}

// The altered message; its link and numbers are known if the run reports them.
void add_columns(const std::vector<record::LinkFault>& faults, const TrialLine& line, Json& value) {
  const auto& result = line.row->result;
  const bool known = result && !result->altered_messages.empty();
  value["message"] = known ? Json(result->altered_messages.front()) : Json{{"link", faults.front()}};
}

// The number that was struck; its patterns are known if the run reports them.
void add_columns(const std::vector<record::ComputeFault>& faults, const TrialLine& line, Json& value) {
  const auto& result = line.row->result;
  const bool known = result && !result->altered_values.empty();
  value["altered_value"] =
      known ? Json(result->altered_values.front()) : Json{{"compute", record::to_json(faults.front())}};
}

// The failed link, and its cost if the run reports it.
void add_columns(const std::vector<record::FailedLink>& links, const TrialLine& line, Json& value) {
  const auto& result = line.row->result;
  const bool known = result && !result->failed_links.empty();
  value["failed_link"] =
      known ? record::to_json(result->failed_links.front()) : Json{{"link", record::to_json(links.front())}};
}

}  // namespace

std::vector<TrialLine> trials_view(const std::vector<record::TrialRecord>& rows, const Trust& trust,
                                   const TrialFilter& filter) {
  for (const std::string& arm : filter.arms) {
    if (trust.controls.contains(arm)) continue;
    std::vector<std::string> names;
    for (const auto& [name, controls] : trust.controls) names.push_back(name);
    fail(ErrorCode::bad_input, "no arm '{}' in this campaign; there are {}", arm, fmt::join(names, ", "));
  }
  std::set<std::string> missing = filter.ids;
  std::vector<TrialLine> lines;
  for (const record::TrialRecord& row : rows) {
    if (!filter.kinds.contains(row.kind)) continue;
    missing.erase(row.id.text());
    if (!lets_pass(filter.ids, row.id.text()) || !lets_pass(filter.arms, row.id.arm) ||
        !lets_pass(filter.strata, row.id.stratum)) {
      continue;
    }
    const TrialLine line = line_of(row, trust.controls.at(row.id.arm), trust.judging);
    if (lets_pass(filter.outcomes, line.outcome.outcome_class()) &&
        lets_pass(filter.reasons, line.outcome.reason))
      lines.push_back(line);
  }
  if (!missing.empty())
    fail(ErrorCode::bad_input, "no trial {} in this campaign (yet); an id is ARM/STRATUM/DRAW",
         *missing.begin());
  return lines;
}

std::vector<record::Metric> shown_metrics(const TrialLine& line) {
  std::vector<record::Metric> metrics(std::begin(record::standard_metrics),
                                      std::end(record::standard_metrics));
  if (!line.golden) return metrics;
  for (record::Metric& metric : record::metrics_in(*line.golden)) {
    if (metric.is_custom()) metrics.push_back(std::move(metric));
  }
  return metrics;
}

record::Metric shown_metric(const std::vector<TrialLine>& lines, const std::string& name) {
  if (const auto metric = find_named<record::StandardMetric>(name)) return *metric;
  std::set<std::string> names;
  for (const TrialLine& line : lines) {
    for (const record::Metric& metric : shown_metrics(line)) {
      if (metric.name() == name) return metric;
      names.insert(metric.name());
    }
  }
  if (names.empty()) names.insert(list_names<record::StandardMetric>());
  fail(ErrorCode::bad_input, "'{}' is not a metric of these trials: use {}", name, fmt::join(names, ", "));
}

void sort_worst_first(std::vector<TrialLine>& lines, const record::Metric& metric) {
  std::stable_sort(lines.begin(), lines.end(), [&metric](const TrialLine& a, const TrialLine& b) {
    return harm(a, metric) > harm(b, metric);
  });
}

void sort_worst_first(std::vector<TrialLine>& lines) {
  const auto p_value = [](const TrialLine& line) { return line.outcome.p_value.value_or(2); };
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const TrialLine& a, const TrialLine& b) { return p_value(a) < p_value(b); });
}

Json to_json(const TrialLine& line) {
  const record::TrialRecord& row = *line.row;
  const record::Outcome& outcome = line.outcome;
  Json value = Json::object();
  row.faults.visit([&](const auto& faults) { add_columns(faults, line, value); });
  value["faults"] = row.faults.size();
  value["id"] = row.id.text();
  value["arm"] = row.id.arm;
  value["stratum"] = row.id.stratum;
  value["draw"] = row.id.draw;
  value["kind"] = row.kind;
  value["order"] = row.order;
  value["outcome"] = outcome.outcome_class();
  value["reason"] = outcome.reason;
  value["course"] = outcome.course;
  value["p_value"] = outcome.p_value ? Json(*outcome.p_value) : Json();
  value["bitwise_equal"] = outcome.bitwise_equal;
  value["steps_to_recover"] = outcome.steps_to_recover ? Json(*outcome.steps_to_recover) : Json();
  value["steps"] = row.result ? Json(row.result->steps) : Json();
  if (row.result && row.result->alarm_count > 0) {
    value["alarms"] = row.result->alarm_count;
    value["guard_actions"] = row.result->guard_action_count;
  }
  value["signal"] = row.failure && row.failure->signal != 0 ? Json(row.failure->signal) : Json();
  const std::vector<record::Metric> shown = shown_metrics(line);
  value.update(metrics_of(line.at, shown));
  value["golden"] = metrics_of(line.golden, shown);
  return value;
}

}  // namespace bitrift::analyze
