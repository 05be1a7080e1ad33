// The record of the golden run with which later runs are compared, step by step. Inside train/ only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/run.h"
#include "spec/training_spec.h"
#include "train/state/session.h"

namespace bitrift::train {

/// The record of a run from the base to its end.
struct Trajectory {
  /// After a step, including the work at the end of an epoch, except the evaluation.
  struct Mark {
    double loss = 0;           ///< of the step's batch
    std::int64_t correct = 0;  ///< right answers in it
    /// mark_digest() by seat (replica x stages + stage): only this rank's, or all if the team may lose
    /// members; "" if unknown.
    std::vector<std::string> digests = {};
  };
  std::vector<Mark> marks;
  record::RunResult result;
};

/// Digest of everything that decides this rank's future. The sums of the current epoch are left out: they
/// only become its training metrics. If a plateau schedule depends on one of them, they decide, and are
/// included.
[[nodiscard]] std::string mark_digest(Session& session, const record::ScheduleSpec& schedule);

}  // namespace bitrift::train
