// The runs of an arm in which nothing was altered, and what they contribute to the verdict on its trials
// (docs/outcomes.md).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/verdict/calibration.h"
#include "analyze/verdict/judging.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// A run in which nothing was altered, as all repetitions of it agreed.
struct CleanRun {
  std::string digest;                        ///< final state, replica 0
  std::vector<std::string> replica_digests;  ///< one per replica
  Trajectory evaluations;                    ///< as judged, see judged()
};

/// The reference against which an arm's rows are judged.
struct ArmControls {
  std::vector<CleanRun> golden;            ///< by data order, at least one; all equally long
  CleanRun zero_step;                      ///< for canaries that are evaluated as loaded
  std::size_t horizon = 0;                 ///< evaluations that count, at most those of a golden run
  std::optional<Calibration> calibration;  ///< always present in the result of controls_of()
};

/// The one trajectory that counts. Judge::worst takes, per evaluation and metric, the worst of all
/// replicas; Judge::rank0 takes replica 0. NaN is worse than any number. Throws Error(bad_file) when replicas
/// are missing or differ in length.
[[nodiscard]] Trajectory judged(const record::RunResult& result, design::Judge judge);

/// Collects the controls of every arm that has a row in the journal. Throws Error(conflict) that names the
/// arm when no-flip runs are missing, failed or differ (digest or any metric, bit for bit), when the
/// zero-step run is missing or a clean run failed; Error(bad_input) when there are fewer than 20 envelope
/// runs, the horizon is after the last evaluation, or the clean runs calibrate nothing (Calibration).
/// The capped loss is left out where no envelope run has it and other metrics are judged.
[[nodiscard]] std::map<std::string, ArmControls> controls_of(const std::vector<record::TrialRecord>& rows,
                                                             const Judging& judging);

}  // namespace bitrift::analyze
