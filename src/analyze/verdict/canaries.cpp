#include "analyze/verdict/canaries.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "record/stratum_name.h"

namespace bitrift::analyze {
namespace {

using record::Canary;
using record::TrialKind;
using record::TrialRecord;

const char* expected_of(Canary canary) noexcept {
  switch (canary) {
    case Canary::nan:
      return name_of(record::OutcomeClass::crash);
    case Canary::negate:
      return name_of(record::OutcomeClass::sdc);
    case Canary::none:
      break;
  }
  return name_of(record::Reason::bitwise);
}

// What is wrong with one canary; "" when it behaves.
std::string canary_problem(Canary canary, const TrialRecord& row, const ArmControls& controls,
                           const Judging& judging) {
  if (!row.landed) return "what it should change was not changed when loaded";
  try {
    const record::Outcome outcome = classify(row, controls, judging);
    const std::string found = outcome.outcome_class() == record::OutcomeClass::masked
                                  ? name_of(outcome.reason)
                                  : name_of(outcome.outcome_class());
    if (found == expected_of(canary)) return "";
    return fmt::format("must be {}, is {} ({})", expected_of(canary), name_of(outcome.outcome_class()),
                       name_of(outcome.reason));
  } catch (const Error& error) {
    return error.what();
  }
}

// The same of a canary in which all tensors of a role are NaN.
std::string reader_problem(const std::string& role, const TrialRecord& row, const ArmControls& controls,
                           const Judging& judging) {
  const bool refused = row.result && row.result->status == record::RunStatus::rejected;
  if (!row.landed && !refused) return "what it should change was not changed when loaded";
  try {
    if (!classify(row, controls, judging).bitwise_equal) return "";
  } catch (const Error& error) {
    return error.what();
  }
  return fmt::format(
      "the trainer does not read role {}: a run with all its tensors NaN ended bitwise equal to the golden "
      "run; make the trainer load them, or take the role out of strata",
      role);
}

// The same of a canary in which a rank is to fail.
std::string process_problem(record::ProcessCanary canary, const TrialRecord& row, const ArmControls& controls,
                            const Judging& judging) {
  const bool reaches = canary != record::ProcessCanary::unreached;
  if (row.landed != reaches)
    return reaches ? "the rank that was to fail did not" : "a rank failed that was not to";
  try {
    const record::Outcome outcome = classify(row, controls, judging);
    const bool bitwise = outcome.reason == record::Reason::bitwise;
    switch (canary) {
      case record::ProcessCanary::unreached:
        if (bitwise && !outcome.recovered) return "";
        break;
      case record::ProcessCanary::recovers:
        if (bitwise && outcome.recovered) return "";
        break;
      case record::ProcessCanary::no_recovery:
        if (outcome.reason == record::Reason::unrecovered) return "";
        break;
    }
    const record::Reason wanted =
        canary == record::ProcessCanary::no_recovery ? record::Reason::unrecovered : record::Reason::bitwise;
    return fmt::format("must be {}, is {} ({}){}", name_of(wanted), name_of(outcome.outcome_class()),
                       name_of(outcome.reason), outcome.recovered ? " after a recovery" : "");
  } catch (const Error& error) {
    return error.what();
  }
}

// The same of a canary in which a message is to be altered.
std::string link_problem(record::LinkCanary canary, const TrialRecord& row, const ArmControls& controls,
                         const Judging& judging) {
  const bool reaches = canary == record::LinkCanary::lands;
  if (row.landed != reaches)
    return reaches ? "the message that was to be altered was not"
                   : "a message was altered that was not to be";
  try {
    if (classify(row, controls, judging).bitwise_equal != reaches) return "";
  } catch (const Error& error) {
    return error.what();
  }
  return reaches ? "a huge gradient changed nothing" : "must be bitwise, is not";
}

// The same of a canary in which a link is to be slow.
std::string slow_problem(record::FailedLinkCanary canary, const TrialRecord& row, const ArmControls& controls,
                         const Judging& judging) {
  const bool reaches = canary == record::FailedLinkCanary::slow;
  if (row.landed != reaches)
    return reaches ? "the link that was to be slow was not" : "a link failed that was not to";
  try {
    return classify(row, controls, judging).bitwise_equal ? "" : "must be bitwise, is not";
  } catch (const Error& error) {
    return error.what();
  }
}

const TrialRecord* find_canary(const std::vector<TrialRecord>& rows, const std::string& arm,
                               std::string_view stratum) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const TrialRecord& row) {
    return row.kind == TrialKind::canary && row.id.arm == arm && row.id.stratum == stratum;
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> canary_problems(const std::vector<TrialRecord>& rows,
                                         const std::map<std::string, ArmControls>& controls,
                                         const Judging& judging) {
  std::vector<std::string> problems;
  for (const auto& [arm, of_arm] : controls) {
    for (const Canary canary : record::canaries) {
      const std::string_view stratum = name_of(canary);
      bool seen = false;
      for (const TrialRecord& row : rows) {
        if (row.kind != TrialKind::canary || row.id.arm != arm || row.id.stratum != stratum) continue;
        seen = true;
        const std::string problem = canary_problem(canary, row, of_arm, judging);
        if (!problem.empty()) problems.push_back(fmt::format("arm '{}': {}: {}", arm, stratum, problem));
      }
      if (!seen) problems.push_back(fmt::format("arm '{}': {}: missing", arm, stratum));
    }
    const auto recovery = judging.recoveries.find(arm);
    if (recovery != judging.recoveries.end()) {
      for (const record::ProcessCanary canary : record::process_canaries(recovery->second)) {
        const TrialRecord* const row = find_canary(rows, arm, name_of(canary));
        const std::string problem =
            row == nullptr ? "missing" : process_problem(canary, *row, of_arm, judging);
        if (!problem.empty())
          problems.push_back(fmt::format("arm '{}': {}: {}", arm, name_of(canary), problem));
      }
    }
    for (const record::LinkCanary canary : record::link_canaries) {
      if (!judging.links_alter) break;
      const TrialRecord* const row = find_canary(rows, arm, name_of(canary));
      const std::string problem = row == nullptr ? "missing" : link_problem(canary, *row, of_arm, judging);
      if (!problem.empty())
        problems.push_back(fmt::format("arm '{}': {}: {}", arm, name_of(canary), problem));
    }
    for (const record::FailedLinkCanary canary : record::failed_link_canaries) {
      if (!judging.links_fail) break;
      const TrialRecord* const row = find_canary(rows, arm, name_of(canary));
      const std::string problem = row == nullptr ? "missing" : slow_problem(canary, *row, of_arm, judging);
      if (!problem.empty())
        problems.push_back(fmt::format("arm '{}': {}: {}", arm, name_of(canary), problem));
    }
    for (const TrialRecord& row : rows) {
      const auto role = record::role_of_reader_canary(row.id.stratum);
      if (row.kind != TrialKind::canary || row.id.arm != arm || !role) continue;
      const std::string problem = reader_problem(*role, row, of_arm, judging);
      if (!problem.empty()) problems.push_back(fmt::format("arm '{}': {}: {}", arm, row.id.stratum, problem));
    }
  }
  return problems;
}

}  // namespace bitrift::analyze
