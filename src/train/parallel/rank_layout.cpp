#include "train/parallel/rank_layout.h"

namespace bitrift::train {
namespace {

// A group of all ranks or of one needs no communicator of its own.
mpi::Communicator group(const mpi::Communicator& world, int size, int color, int key) {
  if (size == 1) return {};
  if (size == world.size()) return world;
  return world.split(color, key);
}

}  // namespace

Layout::Layout(const record::Parallel& parallel, const mpi::Communicator& world_) : world(world_) {
  const int stages = parallel.stages;
  const int replica = world.rank() / stages, stage = world.rank() % stages;
  pipeline = group(world, stages, replica, stage);
  replicas = group(world, parallel.replicas(), stage, replica);
}

}  // namespace bitrift::train
