#include "comm/model/tree_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "comm/graph/strength.h"
#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr int kMostLoad = 40;  // trees on one link; with more trees, packings hardly get closer to the bound

// Numbers of trees that fill a link up to `load` if the packing is perfect, or slightly fewer: a packing with
// spare capacity has shallower trees.
std::set<int, std::greater<>> tree_counts(const Graph& mesh, const Fraction& tau) {
  std::set<int> loads = {1, 2, 4, 8, 16, 24, 32};
  if (tau.denominator <= kMostLoad) loads.insert(static_cast<int>(tau.denominator));
  std::set<int, std::greater<>> out = {1};
  for (const int load : loads)
    for (int spare = 0; spare < 3; ++spare) {
      const int trees = static_cast<int>(load * tau.numerator / tau.denominator) - spare;
      // On a small mesh, more trees than chips gain little and cost planning time.
      if (trees >= 1 && trees <= mesh.vertices()) out.insert(trees);
    }
  return out;
}

}  // namespace

Chunking choose_chunks(int trees, double busiest, double depth, double bytes, const LinkCost& cost,
                       int pieces) {
  const double best = std::sqrt(2 * depth * bytes / (trees * cost.bandwidth * busiest * cost.overhead));
  const double most = std::max(1, pieces / trees);
  const double chunks = std::isfinite(best) ? std::clamp(std::round(best), 1.0, most) : most;
  const double piece = bytes / (trees * chunks * cost.bandwidth);
  const double seconds =
      busiest * chunks * (piece + cost.overhead) + 2 * depth * (cost.latency + cost.overhead + piece);
  return {.chunks = static_cast<int>(chunks), .seconds = seconds};
}

TreePlan choose_trees(const Graph& mesh, double bytes, const LinkCost& cost, int pieces) {
  const Fraction tau = strength_of(mesh).tau;
  const int radius = pack_trees(mesh, {.trees = 1, .rounds = 0}).trees.front().depth;
  TreePlan best;
  const auto better = [&](const Chunking& chunking) {
    return best.packing.trees.empty() || chunking.seconds < best.estimate;
  };
  // The largest comes first: for large messages, the others are then skipped.
  for (const int trees : tree_counts(mesh, tau)) {
    const double fair = fair_load(mesh, tau, trees);
    for (const double price : {0.3, 1.0}) {
      if (!better(choose_chunks(trees, fair, radius, bytes, cost, pieces))) break;
      Packing packing = pack_trees(mesh, {.trees = trees, .depth_price = price});
      const Chunking found = choose_chunks(trees, packing.busiest, packing.mean_depth(), bytes, cost, pieces);
      if (better(found)) best = {std::move(packing), found.chunks, found.seconds};
    }
  }
  return best;
}

}  // namespace bitrift::comm
