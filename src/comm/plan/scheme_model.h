// A scheme on a mesh, planned and modelled for one workload after another.
#pragma once

#include <optional>
#include <utility>

#include "comm/model/schedule_model.h"
#include "comm/plan/planner.h"

namespace bitrift::comm {

class SchemeModel {
 public:
  /// tau: the strength of graph_of() the mesh.
  SchemeModel(Topology mesh, Scheme scheme, const Fraction& tau)
      : mesh_(std::move(mesh)), scheme_(scheme), tau_(tau) {}

  /// Trees are planned for each workload, all other schemes once. Throws as plan_schedule() and
  /// ScheduleModel::run() do.
  [[nodiscard]] Forecast run(const Workload& work);
  /// The results of the last run.
  [[nodiscard]] const Schedule& schedule() const { return schedule_.value(); }

 private:
  Topology mesh_;
  Scheme scheme_;
  Fraction tau_;
  std::optional<Schedule> schedule_;
  std::optional<ScheduleModel> model_;
};

/// The same mesh without failures; empty if it has none.
[[nodiscard]] std::optional<Topology> without_failures(const Topology& mesh);

/// A scheme on the mesh without failures.
class WholeMeshModel {
 public:
  WholeMeshModel(const Topology& mesh, Scheme scheme);
  /// Seconds of an allreduce, modelled. Empty if the mesh has no failures, or the scheme cannot serve it
  /// without them.
  [[nodiscard]] std::optional<double> seconds(const Workload& work);

 private:
  std::optional<SchemeModel> model_;
};

}  // namespace bitrift::comm
