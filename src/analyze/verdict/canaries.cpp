#include "analyze/verdict/canaries.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

using design::Canary;
using design::Required;
using record::TrialRecord;

// All canaries that an arm must have, except those of roles, which follow from the base.
std::vector<Canary> required_canaries(const std::string& arm, const Judging& judging) {
  std::vector<Canary> list;
  std::ranges::transform(design::base_canaries, std::back_inserter(list), design::canary_of);
  for (Canary& own : judging.strata->canaries(judging.recovery_of(arm))) list.push_back(std::move(own));
  return list;
}

std::optional<Canary> canary_named(const std::string& stratum, const std::vector<Canary>& required) {
  const auto found = std::ranges::find(required, stratum, &Canary::stratum);
  if (found != required.end()) return *found;
  if (const auto role = design::role_of_reader_canary(stratum)) return design::reader_canary_of(*role);
  return std::nullopt;
}

// A loss of weights that are NaN is NaN. A metric of the script's own, such as a share of right answers, may
// stay finite: then the run does not crash.
bool reports_no_loss(const ArmControls& controls) {
  if (controls.golden.empty() || controls.golden.front().evaluations.empty()) return false;
  return std::ranges::none_of(controls.golden.front().evaluations,
                              [](const record::Evaluation& one) { return one.test_loss.has_value(); });
}

// If the trainer refuses a file, it reads it.
bool refused(const Canary& canary, const TrialRecord& row) {
  return canary.may_be_refused && row.result && row.result->status == record::RunStatus::rejected;
}

std::string landing_of(const Canary& canary, const TrialRecord& row) {
  if (!row.landed && refused(canary, row)) return "not known: the trainer refused the file";
  if (row.landed == canary.lands) return row.landed ? "yes" : "no, as required";
  return row.landed ? "yes, but must not" : "no, but must";
}

// " after model/fc.weight was altered", because a program may not use that tensor. "" where a canary alters
// many tensors, or none.
std::string after_what(const TrialRecord& row) {
  constexpr std::size_t most = 2;
  if (!row.result || row.result->changed_tensors.empty() || row.result->changed_tensors.size() > most)
    return "";
  const auto& names = row.result->changed_tensors;
  return fmt::format(" after {} {} altered", fmt::join(names, " and "), names.size() == 1 ? "was" : "were");
}

void judge(CanaryCheck& check, const Canary& canary, const TrialRecord& row, const ArmControls& controls,
           const Judging& judging) {
  try {
    const record::Outcome outcome = classify(row, controls, judging);
    check.found = design::words_of(outcome) + (outcome.recovered ? " after a recovery" : "");
    // A guard that undid a fault of the run has seen it. What a file holds cannot be undone.
    const bool undone = canary.required == Required::altered && !row.faults.of_bits() && row.result &&
                        row.result->guard_action_count > 0;
    if (!undone) check.problem = problem_of(canary, outcome);
    if (!check.problem.empty()) check.problem += after_what(row);
  } catch (const Error& error) {
    check.problem = error.what();
  }
  if (row.landed != canary.lands && !refused(canary, row)) check.problem = canary.landing_problem;
  check.state = check.problem.empty() ? CanaryState::holds : CanaryState::misbehaves;
}

bool is_canary_of(const TrialRecord& row, const std::string& arm) {
  return row.kind == record::TrialKind::canary && row.id.arm == arm;
}

// Adds a check for each row of this canary, or one that says that it has not run.
void add_checks(std::vector<CanaryCheck>& checks, const std::vector<const TrialRecord*>& rows,
                const std::string& arm, const Canary& canary, const ArmControls* controls,
                const Judging& judging) {
  const std::size_t before = checks.size();
  const std::string required = design::words_of(canary.required);
  for (const TrialRecord* const row : rows) {
    if (row->id.stratum != canary.stratum) continue;
    checks.push_back(
        {arm, canary.stratum, canary.altered, required, "", landing_of(canary, *row), CanaryState::unjudged});
    if (controls != nullptr) judge(checks.back(), canary, *row, *controls, judging);
  }
  if (checks.size() > before) return;
  checks.push_back({arm, canary.stratum, canary.altered, required, "", "", CanaryState::not_run, "missing"});
}

}  // namespace

std::string CanaryCheck::line() const { return fmt::format("arm '{}': {}: {}", arm, stratum, problem); }

std::vector<CanaryCheck> canary_checks(const std::vector<TrialRecord>& rows,
                                       const std::vector<std::string>& arms,
                                       const std::map<std::string, ArmControls>& controls,
                                       const Judging& judging,
                                       const std::map<std::string, std::vector<std::string>>& planned) {
  std::vector<CanaryCheck> checks;
  for (const std::string& arm : arms) {
    const std::vector<Canary> required = required_canaries(arm, judging);
    std::vector<std::string> strata;
    if (const auto plan = planned.find(arm); plan != planned.end()) {
      strata = plan->second;
    } else {
      for (const Canary& canary : required) strata.push_back(canary.stratum);
    }
    std::vector<const TrialRecord*> own;
    for (const TrialRecord& row : rows) {
      if (!is_canary_of(row, arm)) continue;
      own.push_back(&row);
      if (std::ranges::find(strata, row.id.stratum) != strata.end()) continue;
      // The canaries of roles run before the one that alters nothing.
      strata.insert(std::ranges::find(strata, name_of(design::BaseCanary::none)), row.id.stratum);
    }
    const auto known = controls.find(arm);
    const ArmControls* const own_controls = known == controls.end() ? nullptr : &known->second;
    for (const std::string& stratum : strata) {
      auto canary = canary_named(stratum, required);
      if (!canary) {
        fail(ErrorCode::bad_file, "arm '{}': this version knows no canary '{}'; use the one that ran it", arm,
             stratum);
      }
      if (canary->required == Required::crash && own_controls != nullptr && reports_no_loss(*own_controls))
        canary->required = Required::crash_or_sdc;
      add_checks(checks, own, arm, *canary, own_controls, judging);
    }
  }
  return checks;
}

std::vector<std::string> canary_problems(const std::vector<TrialRecord>& rows,
                                         const std::map<std::string, ArmControls>& controls,
                                         const Judging& judging) {
  std::vector<std::string> arms;
  arms.reserve(controls.size());
  for (const auto& [arm, of_arm] : controls) arms.push_back(arm);
  std::vector<std::string> problems;
  for (const CanaryCheck& check : canary_checks(rows, arms, controls, judging)) {
    if (!check.problem.empty()) problems.push_back(check.line());
  }
  return problems;
}

}  // namespace bitrift::analyze
