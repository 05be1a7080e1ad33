// Seconds of a save as a function of bytes and ranks.
#pragma once

#include <vector>

#include "study/row/study_kinds.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// A measured save.
struct SaveSample {
  int ranks = 1;
  double bytes = 0;  ///< of the file
  double seconds = 0;
};

/// seconds(r, B) = fixed + rank (r - 1) + byte B + spread B f(r) for r ranks that hold a part of the state
/// each. f depends on the route. gather: (r - 1) / r, the part of the state that other ranks send; rank 0
/// checks, copies and writes all of it. shared: 1 / min(r, cores), the work that ranks do in parallel; work
/// that cannot be shared, that of the disk, is in `byte`. Own derivation: every term is the time of one
/// resource, and no two overlap.
struct CostModel {
  SaveRoute route = SaveRoute::gather;  ///< gather or shared
  int cores = 1;                        ///< of the machine
  double fixed = 0;                     ///< s
  double rank = 0;                      ///< seconds for each rank but the first
  double byte = 0;                      ///< s per byte
  double spread = 0;                    ///< s per byte

  /// Throws nothing; ranks is at least 1.
  [[nodiscard]] double seconds(int ranks, double bytes) const noexcept;
};

/// The coefficients, none negative, that minimise the sum of squared relative errors. Throws Error(bad_input)
/// if the samples cannot distinguish them: fewer than two sizes or two numbers of ranks.
[[nodiscard]] CostModel fit_cost(SaveRoute route, int cores, const std::vector<SaveSample>& samples);

/// A modelled value: fixed and rank as fitted here, disk and network from the cluster, and `local` seconds of
/// a processor for each byte that a rank checks and copies (CostModel::spread of shared).
[[nodiscard]] double modelled_seconds(const CostModel& fitted, const Cluster& cluster, double local,
                                      int ranks, double bytes) noexcept;

}  // namespace bitrift::study
