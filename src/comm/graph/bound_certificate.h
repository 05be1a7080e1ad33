// The bound of a mesh with a proof on both sides.
#pragma once

#include "comm/graph/strength.h"
#include "comm/graph/tree_packing.h"

namespace bitrift::comm {

/// The partition proves that no schedule is faster than tau, the trees that packing.value() is possible.
struct BoundCertificate {
  Strength strength;
  Packing packing;

  /// The gap between the packing and tau, as a fraction of tau.
  [[nodiscard]] double gap() const noexcept { return 1 - packing.value() / strength.tau.value(); }
};

/// Packs 61 trees, which come within 3 % on meshes of 1,024 chips, or as many as tau's numerator where those
/// are fewer and come closer. Throws Error(bad_input) as pack_trees() does.
[[nodiscard]] BoundCertificate certify_bound(const Graph& graph);

}  // namespace bitrift::comm
