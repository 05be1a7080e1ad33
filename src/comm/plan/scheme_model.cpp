#include "comm/plan/scheme_model.h"

#include "comm/graph/topology_graph.h"
#include "core/error.h"

namespace bitrift::comm {

Forecast SchemeModel::run(const Workload& work) {
  if (!schedule_ || scheme_ == Scheme::trees) {
    schedule_ = plan_schedule(mesh_, scheme_, work);
    model_.emplace(*schedule_, tau_);
  }
  return model_->run(work);
}

std::optional<Topology> without_failures(const Topology& mesh) {
  if (mesh.dead().empty() && mesh.dead_links().empty()) return std::nullopt;
  return Topology(mesh.rows(), mesh.columns(), mesh.wrap(), {}, {});
}

WholeMeshModel::WholeMeshModel(const Topology& mesh, Scheme scheme) {
  if (const std::optional<Topology> whole = without_failures(mesh); whole && scheme != Scheme::other)
    model_.emplace(*whole, scheme, strength_of(graph_of(*whole)).tau);
}

std::optional<double> WholeMeshModel::seconds(const Workload& work) {
  if (!model_) return std::nullopt;
  try {
    return model_->run(work).seconds;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    model_.reset();
    return std::nullopt;
  }
}

}  // namespace bitrift::comm
