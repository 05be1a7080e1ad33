// One call of Trainer::run. Inside train/ only.
#pragma once

#include "record/run.h"
#include "train/run/run_options.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// See Trainer::run().
[[nodiscard]] record::RunResult run_loop(TrainerState& state, const RunOptions& options);

}  // namespace bitrift::train
