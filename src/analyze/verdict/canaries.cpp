#include "analyze/verdict/canaries.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/error.h"
#include "record/stratum_name.h"

namespace bitrift::analyze {
namespace {

using record::FailedLinkCanary;
using record::LinkCanary;
using record::ProcessCanary;
using record::TrialRecord;

/// All floating-point tensors of a role are NaN.
struct ReaderCanary {
  std::string role;
};

using AnyCanary = std::variant<record::Canary, ProcessCanary, LinkCanary, FailedLinkCanary, ReaderCanary>;

std::optional<AnyCanary> canary_named(const std::string& stratum) {
  if (const auto canary = find_named<record::Canary>(stratum)) return *canary;
  if (const auto canary = find_named<ProcessCanary>(stratum)) return *canary;
  if (const auto canary = find_named<LinkCanary>(stratum)) return *canary;
  if (const auto canary = find_named<FailedLinkCanary>(stratum)) return *canary;
  if (auto role = record::role_of_reader_canary(stratum)) return ReaderCanary{std::move(*role)};
  return std::nullopt;
}

/// What a canary is, and what it must be.
struct CanaryRule {
  std::string altered, required;  // in words
  bool lands = true;              // what is to happen in it does
  std::string landing_problem = "what it should change was not changed when loaded";
};

CanaryRule rule_of(record::Canary canary) {
  switch (canary) {
    case record::Canary::nan:
      return {"first weight tensor set to NaN", "crash"};
    case record::Canary::negate:
      return {"last layer negated, no step taken", "SDC"};
    case record::Canary::none:
      break;
  }
  return {"nothing", "masked (bitwise)"};
}

CanaryRule rule_of(const ReaderCanary& canary) {
  return {fmt::format("NaN in all targeted floating-point tensors of role {}", canary.role),
          "any, but the final state differs from the golden run's"};
}

CanaryRule rule_of(ProcessCanary canary) {
  switch (canary) {
    case ProcessCanary::unreached:
      return {"a rank is to fail after the end of the run", "masked (bitwise), without a recovery", false,
              "a rank failed that was not to"};
    case ProcessCanary::recovers:
      return {"a rank fails in the middle of the run", "masked (bitwise), after a recovery", true,
              "the rank that was to fail did not"};
    case ProcessCanary::no_recovery:
      break;
  }
  return {"a rank fails in the middle of the run, recovery switched off", "crash (unrecovered)", true,
          "the rank that was to fail did not"};
}

CanaryRule rule_of(LinkCanary canary) {
  switch (canary) {
    case LinkCanary::unreached:
      return {"a message is to be altered after the end of the run", "masked (bitwise)", false,
              "a message was altered that was not to be"};
    case LinkCanary::lands:
      break;
  }
  return {"highest exponent bit of a number in a message flipped in the middle of the run",
          "any, but the final state differs from the golden run's", true,
          "the message that was to be altered was not"};
}

CanaryRule rule_of(FailedLinkCanary canary) {
  switch (canary) {
    case FailedLinkCanary::unreached:
      return {"a link is to be slow from a step after the end of the run on", "masked (bitwise)", false,
              "a link failed that was not to"};
    case FailedLinkCanary::slow:
      break;
  }
  return {"a link is slow from the middle of the run on", "masked (bitwise)", true,
          "the link that was to be slow was not"};
}

std::string text_of(const record::Outcome& outcome) {
  return fmt::format("{} ({})", name_of(outcome.outcome_class()), name_of(outcome.reason));
}

// What is wrong with an outcome; "" when it is as required.
std::string problem_of(record::Canary canary, const record::Outcome& outcome) {
  const bool masked = outcome.outcome_class() == record::OutcomeClass::masked;
  const std::string found = masked ? name_of(outcome.reason) : name_of(outcome.outcome_class());
  const std::string wanted =
      canary == record::Canary::none ? name_of(record::Reason::bitwise) : rule_of(canary).required;
  return found == wanted ? "" : fmt::format("must be {}, is {}", wanted, text_of(outcome));
}

std::string problem_of(const ReaderCanary& canary, const record::Outcome& outcome) {
  if (!outcome.bitwise_equal) return "";
  return fmt::format(
      "the trainer does not read role {}: a run with all its tensors NaN ended bitwise equal to the golden "
      "run; make the trainer load them, or take the role out of strata",
      canary.role);
}

std::string problem_of(ProcessCanary canary, const record::Outcome& outcome) {
  const bool bitwise = outcome.reason == record::Reason::bitwise;
  record::Reason wanted = record::Reason::bitwise;
  switch (canary) {
    case ProcessCanary::unreached:
      if (bitwise && !outcome.recovered) return "";
      break;
    case ProcessCanary::recovers:
      if (bitwise && outcome.recovered) return "";
      break;
    case ProcessCanary::no_recovery:
      wanted = record::Reason::unrecovered;
      if (outcome.reason == wanted) return "";
      break;
  }
  return fmt::format("must be {}, is {}{}", name_of(wanted), text_of(outcome),
                     outcome.recovered ? " after a recovery" : "");
}

std::string problem_of(LinkCanary canary, const record::Outcome& outcome) {
  const bool reaches = canary == LinkCanary::lands;
  if (outcome.bitwise_equal != reaches) return "";
  return reaches ? "a huge gradient changed nothing" : "must be bitwise, is not";
}

std::string problem_of(FailedLinkCanary, const record::Outcome& outcome) {
  return outcome.bitwise_equal ? "" : "must be bitwise, is not";
}

CanaryRule rule_of(const AnyCanary& canary) {
  return std::visit([](const auto& one) { return rule_of(one); }, canary);
}

// A file that the trainer refuses is one that it reads.
bool refused(const AnyCanary& canary, const TrialRecord& row) {
  return std::holds_alternative<ReaderCanary>(canary) && row.result &&
         row.result->status == record::RunStatus::rejected;
}

std::string landing_of(const CanaryRule& rule, const AnyCanary& canary, const TrialRecord& row) {
  if (!row.landed && refused(canary, row)) return "not known: the trainer refused the file";
  if (row.landed == rule.lands) return row.landed ? "yes" : "no, as required";
  return row.landed ? "yes, but must not" : "no, but must";
}

void judge(CanaryCheck& check, const AnyCanary& canary, const TrialRecord& row, const ArmControls& controls,
           const Judging& judging) {
  const CanaryRule rule = rule_of(canary);
  try {
    const record::Outcome outcome = classify(row, controls, judging);
    check.found = text_of(outcome) + (outcome.recovered ? " after a recovery" : "");
    check.problem = std::visit([&](const auto& one) { return problem_of(one, outcome); }, canary);
  } catch (const Error& error) {
    check.problem = error.what();
  }
  if (row.landed != rule.lands && !refused(canary, row)) check.problem = rule.landing_problem;
  check.state = check.problem.empty() ? CanaryState::holds : CanaryState::misbehaves;
}

// Those that every such arm has. Canaries of roles follow from the base.
std::vector<std::string> required_canaries(const std::string& arm, const Judging& judging) {
  std::vector<std::string> strata;
  strata.reserve(std::size(record::canaries));
  for (const record::Canary canary : record::canaries) strata.emplace_back(name_of(canary));
  if (const auto recovery = judging.recoveries.find(arm); recovery != judging.recoveries.end()) {
    for (const ProcessCanary canary : record::process_canaries(recovery->second))
      strata.emplace_back(name_of(canary));
  }
  for (const LinkCanary canary : record::link_canaries) {
    if (judging.links_alter) strata.emplace_back(name_of(canary));
  }
  for (const FailedLinkCanary canary : record::failed_link_canaries) {
    if (judging.links_fail) strata.emplace_back(name_of(canary));
  }
  return strata;
}

bool is_canary_of(const TrialRecord& row, const std::string& arm) {
  return row.kind == record::TrialKind::canary && row.id.arm == arm;
}

// Adds the check of each row of this canary, or of one that has not run.
void add_checks(std::vector<CanaryCheck>& checks, const std::vector<const TrialRecord*>& rows,
                const std::string& arm, const std::string& stratum, const ArmControls* controls,
                const Judging& judging) {
  const auto canary = canary_named(stratum);
  if (!canary) {
    fail(ErrorCode::bad_file, "arm '{}': this version knows no canary '{}'; use the one that ran it", arm,
         stratum);
  }
  const CanaryRule rule = rule_of(*canary);
  const std::size_t before = checks.size();
  for (const TrialRecord* const row : rows) {
    if (row->id.stratum != stratum) continue;
    checks.push_back({arm, stratum, rule.altered, rule.required, "", landing_of(rule, *canary, *row),
                      CanaryState::unjudged});
    if (controls != nullptr) judge(checks.back(), *canary, *row, *controls, judging);
  }
  if (checks.size() > before) return;
  checks.push_back({arm, stratum, rule.altered, rule.required, "", "", CanaryState::not_run, "missing"});
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
    const auto plan = planned.find(arm);
    std::vector<std::string> strata = plan == planned.end() ? required_canaries(arm, judging) : plan->second;
    std::vector<const TrialRecord*> own;
    for (const TrialRecord& row : rows) {
      if (!is_canary_of(row, arm)) continue;
      own.push_back(&row);
      if (std::ranges::find(strata, row.id.stratum) != strata.end()) continue;
      // Those of roles run before the one that alters nothing.
      strata.insert(std::ranges::find(strata, name_of(record::Canary::none)), row.id.stratum);
    }
    const auto known = controls.find(arm);
    for (const std::string& stratum : strata) {
      add_checks(checks, own, arm, stratum, known == controls.end() ? nullptr : &known->second, judging);
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
