#include "campaign/plan/golden_runs.h"

#include <algorithm>

#include "campaign/plan/ends.h"
#include "campaign/plan/plan.h"
#include "core/error.h"
#include "record/json/json_diff.h"

namespace bitrift::campaign {
namespace {

record::Json comparable(const record::RunResult& result) {
  record::RunResult copy = result;
  copy.id.clear();
  copy.seconds = 0;
  return record::to_json(copy);
}

std::string text_of(const JsonDifference& difference) {
  return fmt::format("{} is {} and {}", difference.key, difference.first, difference.second);
}

}  // namespace

std::optional<std::string> run_difference(const record::RunResult& first, const record::RunResult& second) {
  const record::Json one = comparable(first);
  const record::Json other = comparable(second);
  if (const auto metric = json_difference(record::Json{{"replicas", one.at("replicas")}},
                                          record::Json{{"replicas", other.at("replicas")}})) {
    return text_of(*metric);
  }
  if (const auto difference = json_difference(one, other)) return text_of(*difference);
  return std::nullopt;
}

Controls::Controls(const design::CampaignSpec& spec, const std::vector<record::TrialRecord>& rows)
    : spec_(spec) {
  for (const record::TrialRecord& row : rows) {
    if (!is_golden_run({row.kind, row.id}) || !row.result) continue;
    const std::size_t arm = spec.arm_index(row.id.arm);
    check(arm, row.order, *row.result, "journal row " + row.id.text());
    took(arm, row.seconds);
  }
}

void Controls::check(std::size_t arm, int order, const record::RunResult& result, const std::string& what) {
  const std::string& name = spec_.arms[arm].name;
  if (result.status != record::RunStatus::done) {
    throw Misbehaviour(fmt::format("arm '{}': {}: the no-flip run ended as {}{}{}", name, what,
                                   name_of(result.status), result.detail.empty() ? "" : ": ", result.detail));
  }
  if (!result.changed_tensors.empty()) {
    throw Misbehaviour(
        fmt::format("arm '{}': {}: nothing was flipped, but {} differs from the base when loaded", name, what,
                    fmt::join(result.changed_tensors, ", ")));
  }
  const auto [golden, first] = golden_.emplace(std::pair(arm, order), result);
  if (first) {
    check_propagation(arm, result);
    check_length(arm, result);
    return check_accuracy(arm, order, result);
  }
  if (const auto difference = run_difference(golden->second, result)) {
    throw Misbehaviour(fmt::format("arm '{}': {}: no-flip runs{} are not bit-identical: {}", name, what,
                                   order == 0 ? "" : fmt::format(" of data order {}", order), *difference));
  }
}

void Controls::check_accuracy(std::size_t arm, int order, const record::RunResult& result) const {
  const design::Arm& of = spec_.arms[arm];
  const double least = spec_.base_of(of).min_test_accuracy;
  for (const auto& replica : result.replicas) {
    const auto reported = replica.empty() ? std::optional<double>(0) : replica.back().test_accuracy;
    if (!reported && least > 0) {
      fail(ErrorCode::bad_input,
           "arm '{}': the golden run reports no test accuracy, but min_test_accuracy requires {:.4f}: leave "
           "it out",
           of.name, least);
    }
    const double reached = reported.value_or(0);
    if (reached >= least) continue;
    fail(ErrorCode::bad_input,
         "arm '{}': the golden run{} reaches test accuracy {:.4f}, min_test_accuracy requires {:.4f}: train "
         "the base longer",
         of.name, order == 0 ? "" : fmt::format(" of data order {}", order), reached, least);
  }
}

void Controls::check_propagation(std::size_t arm, const record::RunResult& result) const {
  if (!spec_.propagation || spec_.propagation->steps.empty()) return;
  const std::int64_t last = spec_.propagation->steps.back();
  if (last <= result.steps) return;
  fail(ErrorCode::bad_input,
       "arm '{}': propagation.steps names step {}, but a run takes {} steps: name steps of 0 to {}, or raise "
       "resume.epochs",
       spec_.arms[arm].name, last, result.steps, result.steps);
}

// The number of steps from which the place was drawn where a rank or a link fails, or a message is altered.
void Controls::check_length(std::size_t arm, const record::RunResult& result) const {
  const auto planned = spec_.strata->steps_of_run(spec_.resume_epochs);
  if (!planned || *planned == result.steps) return;
  fail(
      ErrorCode::bad_input,
      "arm '{}': a run takes {} steps, but resume.epochs x steps an epoch is {}: resume from a checkpoint at "
      "the end of an epoch",
      spec_.arms[arm].name, result.steps, *planned);
}

void Controls::took(std::size_t arm, double seconds) {
  double& slowest = slowest_[arm];
  slowest = std::max(slowest, seconds);
}

double Controls::deadline_s(std::size_t arm) const {
  if (spec_.deadline_s) return *spec_.deadline_s;
  const auto known = slowest_.find(arm);
  return known == slowest_.end() ? 600 : 10 + 20 * known->second;
}

}  // namespace bitrift::campaign
