// The place of a rank among replicas and stages. Inside train/ only.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "mpi/communicator.h"
#include "spec/mesh_spec.h"
#include "train/parallel/replica_map.h"

namespace bitrift::train {

/// Collective over `world`, in which every rank has work. With one rank for each (replica, stage), rank =
/// replica x stages + stage, so that the stages of a replica are neighbours.
struct Layout {
  Layout(ReplicaMap map_, const mpi::Communicator& world_, std::optional<record::MeshSpec> mesh_ = {});

  ReplicaMap map;
  mpi::Communicator world;
  mpi::Communicator peers;               ///< the ranks that hold this rank's stage, as in the world
  std::vector<int> replicas;             ///< replicas for which this rank computes its stage, ascending
  std::vector<int> holders;              ///< [replica]: rank in `peers` that computes this stage for it
  std::optional<record::MeshSpec> mesh;  ///< mesh whose i-th live chip is rank i
  [[nodiscard]] int stage() const { return map.stage_on(world.rank()); }
  [[nodiscard]] int stages() const noexcept { return map.stages(); }
  [[nodiscard]] int replica() const { return replicas.front(); }  ///< the first of `replicas`
  [[nodiscard]] int replica_count() const noexcept { return map.replicas(); }
  /// If each rank sends one item for each replica that it computes, in the order of `replicas`, padded to
  /// map.most_on_a_rank() of them: the place of the item of (replica, stage) in what all sent.
  [[nodiscard]] std::size_t slot(int replica, int stage) const;
};

}  // namespace bitrift::train
