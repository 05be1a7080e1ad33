// A stage of a pipeline. Inside train/ only.
#pragma once

#include <memory>

#include "spec/parallel.h"
#include "train/fault/compute_flips.h"
#include "train/fault/kill_point.h"
#include "train/parallel/executor.h"
#include "train/parallel/rank_layout.h"

namespace bitrift::train {

/// A stage of one pipeline for each replica that this rank computes it for. If a rank has several, all ranks
/// take them in ascending order, so that none waits for one that comes later. schedule: gpipe (Huang et al.,
/// NeurIPS 2019: all forward passes, then all backward passes) or 1f1b (Narayanan et al., SOSP 2019, as
/// PipeDream-Flush does it: after a warm-up one forward, one backward, so that at most as many micro-batches
/// are in memory as stages follow). Both go backwards in ascending micro-batch order, which adds gradients in
/// the order of a serial run with the same micro-batches.
[[nodiscard]] std::unique_ptr<Executor> make_pipeline(nn::Stage& stage, const Layout& layout,
                                                      const Precision& precision,
                                                      record::PipelineSchedule schedule, int micro_batches,
                                                      KillPoint& kill_point, ComputeFlips& flips);

}  // namespace bitrift::train
