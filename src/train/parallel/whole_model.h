// The whole model on one rank. Inside train/ only.
#pragma once

#include <memory>

#include "train/parallel/executor.h"
#include "train/step/kill_point.h"

namespace bitrift::train {

/// The whole model on this rank.
[[nodiscard]] std::unique_ptr<Executor> make_whole(nn::Stage& stage, const Precision& precision,
                                                   KillPoint& kill_point);

}  // namespace bitrift::train
