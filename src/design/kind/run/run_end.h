// The end of a run, as far as it shows whether its faults landed.
#pragma once

#include <optional>

#include "record/run.h"
#include "record/trial.h"

namespace bitrift::design {

/// Exactly one of the two is set.
struct RunEnd {
  const std::optional<record::RunResult>& result;
  const std::optional<record::Failure>& failure;
};

}  // namespace bitrift::design
