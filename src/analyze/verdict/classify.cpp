#include "analyze/verdict/classify.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Course;
using record::Evaluation;
using record::Metric;
using record::Reason;

bool finite(const Evaluation& evaluation) {
  const auto metrics = record::metrics_in(evaluation);
  return std::all_of(metrics.begin(), metrics.end(),
                     [&](const Metric& metric) { return std::isfinite(*metric.value_in(evaluation)); });
}

// Whether every replica reached the horizon with finite metrics all the way.
bool reached(const record::RunResult& result, std::size_t horizon) {
  return !result.replicas.empty() &&
         std::all_of(result.replicas.begin(), result.replicas.end(), [&](const Trajectory& replica) {
           return replica.size() >= horizon &&
                  std::all_of(replica.begin(), replica.begin() + static_cast<std::ptrdiff_t>(horizon),
                              finite);
         });
}

bool all_finite(const record::RunResult& result) {
  return std::all_of(result.replicas.begin(), result.replicas.end(), [](const Trajectory& replica) {
    return std::all_of(replica.begin(), replica.end(), finite);
  });
}

// A canary may be evaluated as loaded. Trials are excluded: a fault that leaves no step to take is an
// outcome.
bool as_loaded(const record::TrialRecord& row, const Trajectory& run) {
  return row.kind == record::TrialKind::canary && run.size() == 1 && run.front().step == 0;
}

bool equals(const record::RunResult& result, const CleanRun& clean) {
  return !result.final_digest.empty() && result.final_digest == clean.digest &&
         result.replica_digests == clean.replica_digests;
}

Reason reason_of(const record::Failure& failure) {
  switch (failure.reason) {
    case record::FailureReason::exception:
      return Reason::exception;
    case record::FailureReason::signal:
      return Reason::signal;
    case record::FailureReason::hang:
      break;
  }
  return Reason::hang;
}

// Whether ranks were to fail and no process was to replace them. A hang counts as a crash: nobody noticed the
// failure.
bool without_recovery(const record::TrialRecord& row, const Judging& judging) {
  if (!row.faults.of_processes() || row.failure->reason == record::FailureReason::hang) return false;
  for (const design::Canary& canary : judging.strata->canaries(judging.recovery_of(row.id.arm))) {
    if (canary.stratum == row.id.stratum && canary.required == design::Required::unrecovered) return true;
  }
  return judging.recovery_of(row.id.arm).kind == record::RecoveryKind::none;
}

const CleanRun& golden_of(const record::TrialRecord& row, const ArmControls& controls) {
  const auto order = static_cast<std::size_t>(row.order);
  if (row.order < 0 || order >= controls.golden.size()) {
    fail(ErrorCode::conflict, "row {}: its data order {} has no golden run", row.id.text(), row.order);
  }
  return controls.golden[order];
}

bool has(const std::vector<Metric>& metrics, const Metric& metric) {
  return std::find(metrics.begin(), metrics.end(), metric) != metrics.end();
}

Reason sdc_reason(const std::vector<Metric>& outside) {
  if (has(outside, Metric::test_accuracy)) return Reason::low_test_accuracy;
  const bool test = has(outside, Metric::test_capped_loss) || has(outside, Metric::test_loss);
  if (test) return Reason::high_test_loss;
  const bool custom =
      std::any_of(outside.begin(), outside.end(), [](const Metric& metric) { return metric.is_custom(); });
  return custom ? Reason::worse_metric : Reason::training_only;
}

Course course_of(const Ranking& ranking) {
  if (ranking.outside.size() < 2) return Course::none;
  const auto out = [](const std::vector<Metric>& metrics) { return !metrics.empty(); };
  if (std::all_of(ranking.outside.begin(), ranking.outside.end(), out)) return Course::sharp;
  return out(ranking.outside.front()) ? Course::relapsed : Course::slow;
}

record::Outcome judge_by_rank(const Trajectory& run, const ArmControls& controls, const CleanRun& golden) {
  const Ranking ranking = controls.calibration.value().rank(run, golden.evaluations);
  record::Outcome outcome;
  outcome.p_value = ranking.p_value;
  if (!ranking.outside.back().empty()) {
    outcome.reason = sdc_reason(ranking.outside.back());
    outcome.course = course_of(ranking);
    return outcome;
  }
  const auto last = std::find_if(ranking.outside.rbegin(), ranking.outside.rend(),
                                 [](const std::vector<Metric>& metrics) { return !metrics.empty(); });
  if (last != ranking.outside.rend()) {
    outcome.reason = Reason::reconverged;
    outcome.steps_to_recover = run[static_cast<std::size_t>(last.base() - ranking.outside.begin())].step;
  }
  return outcome;
}

// There is no spread in what is evaluated as loaded: the zero-step run's own values are the limits. Canaries
// show that the file is read, whichever metrics are judged.
Reason judge_as_loaded(const Evaluation& loaded, const Evaluation& clean) {
  std::vector<Metric> worse;
  for (const Metric& metric : record::metrics_in(loaded)) {
    const auto known = metric.value_in(clean);
    if (known && badness(metric, *metric.value_in(loaded)) > badness(metric, *known)) worse.push_back(metric);
  }
  return worse.empty() ? Reason::within_noise : sdc_reason(worse);
}

// A test metric that is missing would hide its harm.
void check_metrics(const record::TrialRecord& row, const Trajectory& run, const Trajectory& golden,
                   std::size_t evaluations) {
  for (std::size_t e = 0; e < evaluations; ++e) {
    for (const Metric& metric : record::metrics_in(golden.at(e))) {
      const bool needed = metric.is_custom() || metric == Metric(Metric::test_accuracy);
      if (!needed || metric.value_in(run.at(e))) continue;
      fail(ErrorCode::conflict, "row {}: evaluation {} has no {}, but that of its golden run has one",
           row.id.text(), e + 1, metric.name());
    }
  }
}

void check_form(const record::TrialRecord& row) {
  if (row.result.has_value() == row.failure.has_value()) {
    fail(ErrorCode::bad_file, "row {}: exactly one of result and failure must be there", row.id.text());
  }
}

}  // namespace

record::Outcome classify(const record::TrialRecord& row, const ArmControls& controls,
                         const Judging& judging) {
  check_form(row);
  record::Outcome outcome;
  if (row.failure) {
    outcome.reason = without_recovery(row, judging) ? Reason::unrecovered : reason_of(*row.failure);
    return outcome;
  }
  const record::RunResult& result = *row.result;
  outcome.recovered = result.status == record::RunStatus::done && !result.recoveries.empty();
  const CleanRun& golden = golden_of(row, controls);
  // Whether the run ended after the horizon.
  const bool later = controls.horizon < golden.evaluations.size() && reached(result, controls.horizon);
  if (result.status == record::RunStatus::rejected && !later) {
    outcome.reason = Reason::rejected;
    return outcome;
  }
  if (result.status == record::RunStatus::unrecovered && !later) {
    outcome.reason = Reason::unrecovered;
    return outcome;
  }
  const bool equal = equals(result, golden);
  if ((result.status == record::RunStatus::nonfinite || !all_finite(result)) && !later) {
    outcome.reason = Reason::nonfinite;
    outcome.bitwise_equal = equal;
    return outcome;
  }
  const Trajectory run = judged(result, judging.judge);
  if (as_loaded(row, run)) {
    outcome.bitwise_equal = equals(result, controls.zero_step);
    outcome.reason = outcome.bitwise_equal
                         ? Reason::bitwise
                         : judge_as_loaded(run.front(), controls.zero_step.evaluations.front());
    return outcome;
  }
  if (result.status == record::RunStatus::done && run.size() != golden.evaluations.size()) {
    fail(ErrorCode::conflict, "row {}: {} evaluations, the golden run of its arm has {}", row.id.text(),
         run.size(), golden.evaluations.size());
  }
  const bool whole = controls.horizon == golden.evaluations.size();
  const std::int64_t last_step = golden.evaluations[controls.horizon - 1].step;
  // Equal at the end; at an earlier horizon only if the run had returned by then, or was never altered.
  const bool back = result.returned_step && *result.returned_step <= last_step;
  if (equal && (whole || back || row.kind == record::TrialKind::canary)) {
    outcome.bitwise_equal = true;
    outcome.reason = Reason::bitwise;
    return outcome;
  }
  const bool recovered = outcome.recovered;
  check_metrics(row, run, golden.evaluations, controls.horizon);
  outcome = judge_by_rank(run, controls, golden);
  outcome.recovered = recovered;
  return outcome;
}

}  // namespace bitrift::analyze
