#include "analyze/verdict/canaries.h"

#include <fmt/format.h>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::TrialKind;
using record::TrialRecord;

struct Canary {
  const char* stratum;
  const char* expected;
};
constexpr Canary kCanaries[] = {
    {"canary:nan", "crash"}, {"canary:negate", "SDC"}, {"canary:none", "bitwise"}};

// What is wrong with one canary; "" when it behaves.
std::string canary_problem(const Canary& canary, const TrialRecord& row, const ArmControls& controls,
                           const Judging& judging) {
  if (!row.landed) return "what it should change was not changed when loaded";
  try {
    const record::Outcome outcome = classify(row, controls, judging);
    const std::string found = outcome.outcome_class() == record::OutcomeClass::masked
                                  ? record::reason_name(outcome.reason)
                                  : record::outcome_class_name(outcome.outcome_class());
    if (found == canary.expected) return "";
    return fmt::format("must be {}, is {} ({})", canary.expected,
                       record::outcome_class_name(outcome.outcome_class()),
                       record::reason_name(outcome.reason));
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::vector<std::string> canary_problems(const std::vector<TrialRecord>& rows,
                                         const std::map<std::string, ArmControls>& controls,
                                         const Judging& judging) {
  std::vector<std::string> problems;
  for (const auto& [arm, of_arm] : controls) {
    for (const Canary& canary : kCanaries) {
      bool seen = false;
      for (const TrialRecord& row : rows) {
        if (row.kind != TrialKind::canary || row.id.arm != arm || row.id.stratum != canary.stratum) continue;
        seen = true;
        const std::string problem = canary_problem(canary, row, of_arm, judging);
        if (!problem.empty())
          problems.push_back(fmt::format("arm '{}': {}: {}", arm, canary.stratum, problem));
      }
      if (!seen) problems.push_back(fmt::format("arm '{}': {}: missing", arm, canary.stratum));
    }
  }
  return problems;
}

}  // namespace bitrift::analyze
