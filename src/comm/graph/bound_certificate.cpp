#include "comm/graph/bound_certificate.h"

#include <utility>

#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr int many_trees = 61;

}  // namespace

BoundCertificate certify_bound(const Graph& graph) {
  if (graph.vertices() == 1)
    fail(ErrorCode::bad_input, "a single live chip sends nothing, so it has no bound");
  BoundCertificate out{strength_of(graph), {}};
  // A perfect packing has a multiple of tau's numerator of trees.
  if (out.strength.tau.numerator < many_trees)
    out.packing = pack_trees(graph, {.trees = static_cast<int>(out.strength.tau.numerator)});
  if (out.packing.trees.empty() || out.gap() > 0) {
    Packing many = pack_trees(graph, {.trees = many_trees});
    if (out.packing.trees.empty() || many.value() > out.packing.value()) out.packing = std::move(many);
  }
  return out;
}

}  // namespace bitrift::comm
