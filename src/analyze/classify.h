// The rule that turns a row into an outcome.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/envelope.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// What an arm's trials are judged against.
struct ArmControls {
  std::string golden_digest;                ///< final state of the no-flip run
  std::vector<record::Evaluation> golden;   ///< its evaluations
  Envelope envelope;
  Envelope zero_step;                       ///< limits for an evaluation before any step: golden's own values
};

/// Collects the controls of every arm from a journal's rows. Throws Error(conflict) that names the arm when no-flip
/// runs are missing or differ (digest or any metric), and Error(bad_input) when the envelope is too small.
[[nodiscard]] std::map<std::string, ArmControls> controls_of(const std::vector<record::TrialRecord>& rows);

/// DESIGN rule, first that holds: rejected; exception or signal; hang; nonfinite; bitwise; sharp_degrade (training
/// metrics outside from the first evaluation to the last); slow_degrade (training metrics inside first, left later, outside from
/// there to the end); low_test_accuracy (final test accuracy outside, final training metrics inside); degraded (any other final
/// metric outside); reconverged; within_noise. docs/outcomes.md has each border. judge: "worst" (any replica outside
/// counts, per evaluation) or "rank0".
[[nodiscard]] record::Outcome classify(const record::TrialRecord& row, const ArmControls& controls,
                                       const std::string& judge);

/// Checks the canaries of every arm (NaN first weight: crash; negated last layer after zero steps: SDC; no flip:
/// bitwise). Returns one line per problem, missing ones included; empty when all behave.
[[nodiscard]] std::vector<std::string> canary_problems(const std::vector<record::TrialRecord>& rows,
                                                       const std::map<std::string, ArmControls>& controls,
                                                       const std::string& judge);

}  // namespace bitrift::analyze
