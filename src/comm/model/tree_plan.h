// The number of trees, and the number of chunks in each, chosen by the size of the message.
#pragma once

#include "comm/graph/tree_packing.h"
#include "comm/model/link_model.h"

namespace bitrift::comm {

struct TreePlan {
  Packing packing;
  int chunks = 1;       ///< of each tree
  double estimate = 0;  ///< seconds
};

/// Limits the largest plans, of 1,024 chips, to a few hundred MB.
inline constexpr int most_pieces = 4096;

/// What a packing takes, by estimate, and with how many chunks c of each tree, at most `pieces` pieces in
/// all:
///   bytes busiest / (trees bandwidth) + busiest c overhead + 2 depth (latency + overhead + time of one
///   piece)
/// depth: the mean of the trees. The first two terms are the load of the busiest link, the last the way up
/// and down.
struct Chunking {
  int chunks = 1;
  double seconds = 0;
};
[[nodiscard]] Chunking choose_chunks(int trees, double busiest, double depth, double bytes,
                                     const LinkCost& cost, int pieces);

/// Packs several numbers of trees with several prices for depth, and returns the plan with the smallest
/// estimate. Skips packings that could not be better even with perfectly even loads and the shallowest
/// possible trees. Throws as pack_trees() does.
[[nodiscard]] TreePlan choose_trees(const Graph& mesh, double bytes, const LinkCost& cost,
                                    int pieces = most_pieces);

}  // namespace bitrift::comm
