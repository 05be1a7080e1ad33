// How the gradients of replicas are combined. Inside train/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nn/layer/layer.h"
#include "spec/parallel.h"
#include "train/fault/compute_flips.h"
#include "train/fault/faulty_links.h"
#include "train/fault/kill_point.h"
#include "train/parallel/rank_layout.h"

namespace bitrift::train {

/// Averages the gradients of all trained tensors over replicas; on return all replicas hold the same bits.
class Reducer {
 public:
  virtual ~Reducer() = default;
  /// The gradients of the next backward pass, those of the index-th replica that this rank computes, are
  /// complete: each is taken as soon as it exists.
  virtual void arm(std::size_t index) = 0;
  /// The pass is over: takes the remaining gradients. Gradients may be dropped.
  virtual void taken() = 0;
  /// Waits for the means and stores them as the gradients. Collective.
  virtual void finish() = 0;
  /// Plans and proves sums on this mesh of the same chips, between two steps. Local; throws Error as
  /// plan_share() does, and then nothing has changed.
  virtual void route(const record::MeshSpec& mesh) = 0;
};

/// Gradients in buckets, in the order in which a backward pass produces them, each summed while the pass
/// continues. Sums are taken by ascending replica (mpi::OrderedSum), so bits depend neither on buckets nor on
/// which rank computes which replica. On a mesh a schedule determines their order (BucketSum), and bits
/// depend on it, on buckets and on which rank computes which replica. semantics: ddp: every gradient is
/// multiplied by 1/N before the sum, as in PyTorch's DistributedDataParallel; horovod: the sum is multiplied
/// by 1/N. Float64 gradients are summed in float64, all others in float32 and rounded once to their type. One
/// replica: nothing is touched. The slots' tensors must outlive it.
[[nodiscard]] std::unique_ptr<Reducer> make_bucket_reducer(const std::vector<nn::Slot>& slots,
                                                           const Layout& layout, record::Semantics semantics,
                                                           KillPoint& kill_point, FaultyLinks& links,
                                                           ComputeFlips& flips);

/// Elements of the buckets that the gradients of tensors of these sizes fill, in the order of a model.
[[nodiscard]] std::vector<std::int64_t> bucket_sizes(const std::vector<std::int64_t>& elements,
                                                     std::int64_t element_bytes);

}  // namespace bitrift::train
