#include "train/parallel/rank_layout.h"

#include <algorithm>
#include <utility>

namespace bitrift::train {
namespace {

// A group of all ranks or of one needs no separate communicator.
mpi::Communicator group(const mpi::Communicator& world, const ReplicaMap& map, int stage) {
  const auto size = static_cast<int>(map.ranks_of_stage(stage).size());
  if (map.stages() == 1) return world;
  // Whether a rank splits must not depend on its stage, because splitting is collective.
  const bool alone = map.ranks() == map.stages();
  if (alone) return {};
  const mpi::Communicator mine = world.split(stage, world.rank());
  return size == 1 ? mpi::Communicator() : mine;
}

}  // namespace

Layout::Layout(ReplicaMap map_, const mpi::Communicator& world_, std::optional<record::MeshSpec> mesh_)
    : map(std::move(map_)),
      world(world_),
      peers(group(world, map, map.stage_on(world.rank()))),
      replicas(map.replicas_on(world.rank())),
      mesh(std::move(mesh_)) {
  const std::vector<int> ranks = map.ranks_of_stage(stage());
  for (int replica = 0; replica < map.replicas(); ++replica) {
    const auto at = std::find(ranks.begin(), ranks.end(), map.host(replica, stage()));
    holders.push_back(static_cast<int>(at - ranks.begin()));
  }
}

std::size_t Layout::slot(int replica, int stage) const {
  const int rank = map.host(replica, stage);
  const std::vector<int> there = map.replicas_on(rank);
  const auto index = std::find(there.begin(), there.end(), replica) - there.begin();
  return static_cast<std::size_t>(rank * map.most_on_a_rank() + static_cast<int>(index));
}

}  // namespace bitrift::train
