// A stage of a pipeline. Inside train/ only.
#pragma once

#include <memory>

#include "mpi/communicator.h"
#include "spec/parallel.h"
#include "train/parallel/executor.h"

namespace bitrift::train {

/// A stage of a pipeline; ranks of `pipeline` hold the stages in order. schedule: gpipe (Huang et al.,
/// NeurIPS 2019: all forward passes, then all backward passes) or 1f1b (Narayanan et al., SOSP 2019, as
/// PipeDream-Flush does it: after a warm-up one forward, one backward, so that at most as many micro-batches
/// are in memory as stages follow). Both go backwards in ascending micro-batch order, which adds gradients in
/// the order of a serial run with the same micro-batches.
[[nodiscard]] std::unique_ptr<Executor> make_pipeline(nn::Stage& stage, const mpi::Communicator& pipeline,
                                                      const Precision& precision,
                                                      record::PipelineSchedule schedule, int micro_batches);

}  // namespace bitrift::train
