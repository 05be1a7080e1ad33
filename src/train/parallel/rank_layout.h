// The place of a rank among replicas and stages. Inside train/ only.
#pragma once

#include "mpi/communicator.h"
#include "spec/parallel.h"

namespace bitrift::train {

/// Rank = replica x stages + stage, so that the stages of a replica are neighbours.
struct Layout {
  /// Collective over `world`, which has parallel.ranks ranks.
  Layout(const record::Parallel& parallel, const mpi::Communicator& world_);

  mpi::Communicator world;
  mpi::Communicator pipeline;  ///< the stages of this rank's replica, by stage
  mpi::Communicator replicas;  ///< the ranks that hold this rank's stage, by replica
  [[nodiscard]] int stage() const noexcept { return pipeline.rank(); }
  [[nodiscard]] int stages() const noexcept { return pipeline.size(); }
  [[nodiscard]] int replica() const noexcept { return replicas.rank(); }
  [[nodiscard]] int replica_count() const noexcept { return replicas.size(); }
  [[nodiscard]] bool last_stage() const noexcept { return stage() == stages() - 1; }
};

}  // namespace bitrift::train
