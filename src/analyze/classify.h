// The rule that turns a row into an outcome (docs/outcomes.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/envelope.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// A run in which nothing was altered, as all repetitions of it agreed.
struct CleanRun {
  std::string digest;                           ///< final state, replica 0
  std::vector<std::string> replica_digests;     ///< one per replica
  std::vector<record::Evaluation> evaluations;  ///< as judged, see judged()
};

/// What an arm's rows are judged against.
struct ArmControls {
  CleanRun golden;
  Envelope envelope;
  CleanRun zero_step_golden;  ///< the run of zero steps, for canaries that are evaluated as loaded
  Envelope zero_step;         ///< its own values
};

/// The one trajectory that counts. judge: "worst" takes, per evaluation and metric, the worst of all
/// replicas; "rank0" takes replica 0. NaN is worse than any number. Throws Error(bad_input) on another judge,
/// Error(bad_file) when replicas are missing or differ in length.
[[nodiscard]] std::vector<record::Evaluation> judged(const record::RunResult& result,
                                                     const std::string& judge);

/// Collects the controls of every arm that has a row in the journal. Throws Error(conflict) that names the
/// arm when no-flip runs are missing, failed or differ (digest or any metric, bit for bit), when the
/// zero-step run is missing or an envelope run failed; Error(bad_input) when there are fewer than 20 envelope
/// runs.
[[nodiscard]] std::map<std::string, ArmControls> controls_of(const std::vector<record::TrialRecord>& rows,
                                                             const std::string& judge);

/// First that holds: rejected; exception or signal; hang; nonfinite; bitwise; sharp_degrade (training metrics
/// outside from the first evaluation to the last); slow_degrade (training metrics inside first, left later,
/// outside from there to the end); low_test_accuracy (final test accuracy outside, final training metrics
/// inside); degraded (any other final metric outside); reconverged; within_noise. docs/outcomes.md has each
/// border. Throws Error(conflict) when a finished run has not as many evaluations as the golden run,
/// Error(bad_file) when the row is none that a campaign writes.
[[nodiscard]] record::Outcome classify(const record::TrialRecord& row, const ArmControls& controls,
                                       const std::string& judge);

/// Checks the canaries of every arm (NaN first weight: crash; negated last layer after zero steps: SDC; no
/// flip: bitwise; all landed). Returns one line per problem, missing ones included; empty when all behave.
[[nodiscard]] std::vector<std::string> canary_problems(const std::vector<record::TrialRecord>& rows,
                                                       const std::map<std::string, ArmControls>& controls,
                                                       const std::string& judge);

}  // namespace bitrift::analyze
