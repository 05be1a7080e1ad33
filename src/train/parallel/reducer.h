// How gradients of replicas become one. Inside train/ only.
#pragma once

#include <memory>
#include <vector>

#include "mpi/communicator.h"
#include "nn/layer/layer.h"
#include "spec/parallel.h"

namespace bitrift::train {

/// Averages the gradients of all trained tensors over replicas; on return all replicas hold the same bits.
class Reducer {
 public:
  virtual ~Reducer() = default;
  /// The gradients that the next backward pass leaves are whole: each is taken as soon as it is there.
  virtual void arm() = 0;
  /// Waits for the means and puts them in the gradients' place. Collective.
  virtual void finish() = 0;
};

/// Gradients in buckets, in the order in which a backward pass produces them, each summed while the pass
/// continues. Sums are taken by ascending replica (mpi::OrderedSum), so bits do not depend on buckets.
/// semantics: ddp: every gradient is multiplied by 1/N before the sum, as PyTorch's DistributedDataParallel
/// does; horovod: the sum is multiplied by 1/N. Float64 gradients are summed in float64, all others in
/// float32 and rounded once to their type. One replica: nothing is touched. The slots' tensors must outlive
/// it.
[[nodiscard]] std::unique_ptr<Reducer> make_bucket_reducer(const std::vector<nn::Slot>& slots,
                                                           const mpi::Communicator& replicas,
                                                           record::Semantics semantics);

}  // namespace bitrift::train
