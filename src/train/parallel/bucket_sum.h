// The sum of one bucket of gradients over replicas. Inside train/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "mpi/local_schedule.h"
#include "mpi/mesh_allreduce.h"
#include "mpi/ordered_sum.h"
#include "spec/mesh_spec.h"
#include "train/fault/faulty_links.h"
#include "train/parallel/rank_layout.h"

namespace bitrift::train {

/// The schedule for gradients in buckets of which the largest has `bytes` bytes. Throws Error as
/// comm::plan_schedule() does.
[[nodiscard]] comm::Schedule plan_gradients(const record::MeshSpec& mesh, double bytes);

/// This rank's share of the schedule for gradients of `bytes` bytes, where rank i of `ranks` is the i-th live
/// chip. The schedule was proved to be an allreduce that gives all chips the same bits. Throws Error as
/// comm::plan_schedule() does, and Error(internal) if the proof fails.
[[nodiscard]] std::shared_ptr<const mpi::LocalSchedule> plan_share(const record::MeshSpec& mesh, double bytes,
                                                                   int rank);

/// Adds one flat array for each replica; this rank holds those in `flats`. The sum goes into the first.
/// Without a schedule the terms are added by ascending replica (mpi::OrderedSum). With one, each rank first
/// adds its own by ascending replica, and the schedule determines the order of the rest. T: float or double.
template <typename T>
class BucketSum {
 public:
  /// flats: [replica on this rank] arrays of `count`, which `owner` keeps alive. tag: see mpi::OrderedSum.
  BucketSum(const Layout& layout, const std::shared_ptr<const mpi::LocalSchedule>& schedule,
            std::vector<T*> flats, std::size_t count, int tag, std::shared_ptr<const void> owner);

  /// As in mpi::OrderedSum. links: what they do in this step to messages of this bucket; noted if it affects
  /// a message of this rank. `links` must outlive the sum.
  void start(FaultyLinks& links, std::int64_t bucket);
  bool advance();
  void wait();

 private:
  void meet_flips(MessageFlips& flips, std::int64_t bucket);
  void meet_slow_links(LinkFailures& failures);

  const Layout* layout_;
  std::vector<T*> added_first_;  // arrays on this rank; the first receives their sum
  std::size_t count_;
  std::variant<mpi::OrderedSum<T>, mpi::MeshAllreduce<T>> sum_;
};

extern template class BucketSum<float>;
extern template class BucketSum<double>;

}  // namespace bitrift::train
