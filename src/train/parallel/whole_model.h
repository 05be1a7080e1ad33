// The whole model on one rank. Inside train/ only.
#pragma once

#include <memory>

#include "train/fault/compute_flips.h"
#include "train/fault/kill_point.h"
#include "train/parallel/executor.h"

namespace bitrift::train {

/// The whole model on this rank.
[[nodiscard]] std::unique_ptr<Executor> make_whole(nn::Stage& stage, const Precision& precision,
                                                   KillPoint& kill_point, ComputeFlips& flips);

}  // namespace bitrift::train
