// The golden run as later runs are compared with it: step by step. Inside train/ only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/run.h"
#include "spec/training_spec.h"
#include "train/state/session.h"

namespace bitrift::train {

/// What is kept of a run from the base to its end.
struct Trajectory {
  /// After a step; the work at the end of an epoch is done, except the evaluation.
  struct Mark {
    double loss = 0;           ///< of the step's batch
    std::int64_t correct = 0;  ///< right answers in it
    /// mark_digest() by seat (replica x stages + stage): of this rank's alone, or of all where the team may
    /// lose members; "" where it is not known.
    std::vector<std::string> digests = {};
  };
  std::vector<Mark> marks;
  record::RunResult result;
};

/// Digest of all that decides this rank's future. The sums of the epoch under way are left out: they only
/// become its training metrics. Where a plateau schedule follows one of those, they decide, and stay.
[[nodiscard]] std::string mark_digest(Session& session, const record::ScheduleSpec& schedule);

}  // namespace bitrift::train
