#include "analyze/classify.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Evaluation;
using record::Reason;

/// Which metrics of one evaluation are outside their limits.
struct Position {
  bool train = false;
  bool test_loss = false;
  bool test_accuracy = false;
  [[nodiscard]] bool any() const { return train || test_loss || test_accuracy; }
};

// Equal to a limit is inside; so is everything on the better side of it.
Position position(const Evaluation& evaluation, const Limits& limits) {
  Position at;
  if (limits.has_train) {
    at.train = (evaluation.train_loss && *evaluation.train_loss > limits.train_loss_max) ||
               (evaluation.train_accuracy && *evaluation.train_accuracy < limits.train_accuracy_min);
  }
  at.test_loss = evaluation.test_loss > limits.test_loss_max;
  at.test_accuracy = evaluation.test_accuracy < limits.test_accuracy_min;
  return at;
}

bool finite(const Evaluation& evaluation) {
  return std::isfinite(evaluation.train_loss.value_or(0)) &&
         std::isfinite(evaluation.train_accuracy.value_or(0)) && std::isfinite(evaluation.test_loss) &&
         std::isfinite(evaluation.test_accuracy);
}

// The status says so; a metric that is not finite says so too, whichever replica has it.
bool nonfinite(const record::RunResult& result) {
  if (result.status == "nonfinite") return true;
  for (const auto& replica : result.replicas) {
    if (!std::all_of(replica.begin(), replica.end(), finite)) return true;
  }
  return false;
}

// A canary may be evaluated as loaded. A trial never counts as one: that a fault left no step to take is an
// outcome.
bool zero_step(const record::TrialRecord& row, const std::vector<Evaluation>& run) {
  return row.kind == record::TrialKind::canary && run.size() == 1 && run.front().step == 0;
}

bool equals(const record::RunResult& result, const CleanRun& clean) {
  return !result.final_digest.empty() && result.final_digest == clean.digest &&
         result.replica_digests == clean.replica_digests;
}

Reason failure_reason(const record::TrialRecord& row) {
  for (const Reason reason : {Reason::exception, Reason::signal, Reason::hang}) {
    if (row.failure->reason == record::reason_name(reason)) return reason;
  }
  fail(ErrorCode::bad_file, "row {}: failure '{}' is none of exception, signal, hang", row.id.text(),
       row.failure->reason);
}

// The rules that look at the trajectory, in their order.
record::Outcome judge_trajectory(const std::vector<Evaluation>& run, const Envelope& envelope) {
  std::vector<Position> at;
  for (std::size_t i = 0; i < run.size(); ++i) at.push_back(position(run[i], envelope[i]));
  record::Outcome outcome;
  const Position& last = at.back();
  const auto train = [](const Position& p) { return p.train; };
  if (std::all_of(at.begin(), at.end(), train)) {
    outcome.reason = Reason::sharp_degrade;
  } else if (!at.front().train && last.train) {
    // Whatever happened between, there is a last return to the inside, and from the next evaluation on it is
    // outside.
    outcome.reason = Reason::slow_degrade;
  } else if (last.test_accuracy && !last.train) {
    outcome.reason = Reason::low_test_accuracy;
  } else if (last.any()) {
    outcome.reason = Reason::degraded;
  } else {
    const auto left = std::find_if(at.rbegin(), at.rend(), [](const Position& p) { return p.any(); });
    if (left == at.rend()) {
      outcome.reason = Reason::within_noise;
    } else {
      outcome.reason = Reason::reconverged;
      outcome.steps_to_recover = run[static_cast<std::size_t>(left.base() - at.begin())].step;
    }
  }
  return outcome;
}

// The worse of two values: NaN before any number.
double worse(double a, double b, bool larger_is_worse) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return larger_is_worse ? std::max(a, b) : std::min(a, b);
}

void worsen(std::optional<double>& metric, const std::optional<double>& other, bool larger_is_worse) {
  if (other) metric = metric ? worse(*metric, *other, larger_is_worse) : *other;
}

}  // namespace

std::vector<Evaluation> judged(const record::RunResult& result, const std::string& judge) {
  if (judge != "worst" && judge != "rank0") {
    fail(ErrorCode::bad_input, "judge '{}': give worst or rank0", judge);
  }
  if (result.replicas.empty()) fail(ErrorCode::bad_file, "run {}: the result holds no replica", result.id);
  std::vector<Evaluation> run = result.replicas.front();
  for (const auto& replica : result.replicas) {
    if (replica.size() != run.size()) {
      fail(ErrorCode::bad_file, "run {}: replicas have {} and {} evaluations", result.id, run.size(),
           replica.size());
    }
    if (judge == "rank0") continue;
    for (std::size_t i = 0; i < run.size(); ++i) {
      worsen(run[i].train_loss, replica[i].train_loss, true);
      worsen(run[i].train_accuracy, replica[i].train_accuracy, false);
      run[i].test_loss = worse(run[i].test_loss, replica[i].test_loss, true);
      run[i].test_accuracy = worse(run[i].test_accuracy, replica[i].test_accuracy, false);
    }
  }
  return run;
}

record::Outcome classify(const record::TrialRecord& row, const ArmControls& controls,
                         const std::string& judge) {
  if (row.result.has_value() == row.failure.has_value()) {
    fail(ErrorCode::bad_file, "row {}: exactly one of result and failure must be there", row.id.text());
  }
  record::Outcome outcome;
  if (row.failure) {
    outcome.reason = failure_reason(row);
    return outcome;
  }
  const record::RunResult& result = *row.result;
  if (result.status != "done" && result.status != "rejected" && result.status != "nonfinite") {
    fail(ErrorCode::bad_file, "row {}: status '{}' is none of done, rejected, nonfinite", row.id.text(),
         result.status);
  }
  if (result.status == "rejected") {
    outcome.reason = Reason::rejected;
    return outcome;
  }
  const bool full_length = equals(result, controls.golden);
  if (nonfinite(result)) {
    outcome.reason = Reason::nonfinite;
    outcome.bitwise_equal = full_length;
    return outcome;
  }
  const std::vector<Evaluation> run = judged(result, judge);
  const bool at_load = zero_step(row, run);
  const Envelope& envelope = at_load ? controls.zero_step : controls.envelope;
  outcome.bitwise_equal = at_load ? equals(result, controls.zero_step_golden) : full_length;
  if (run.size() != envelope.size() || run.empty()) {
    fail(ErrorCode::conflict, "row {}: {} evaluations, the golden run of its arm has {}", row.id.text(),
         run.size(), envelope.size());
  }
  if (outcome.bitwise_equal) {
    outcome.reason = Reason::bitwise;
    return outcome;
  }
  const record::Outcome verdict = judge_trajectory(run, envelope);
  outcome.reason = verdict.reason;
  outcome.steps_to_recover = verdict.steps_to_recover;
  return outcome;
}

}  // namespace bitrift::analyze
