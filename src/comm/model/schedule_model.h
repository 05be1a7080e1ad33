// The duration of a schedule, by the model of the links.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/graph/strength.h"
#include "comm/mesh_schedule.h"
#include "comm/model/send_list.h"
#include "comm/model/slow_link.h"
#include "comm/model/workload.h"

namespace bitrift::comm {

/// One direction of a link.
struct LinkLoad {
  int from = 0, to = 0;  ///< chips
  double seconds = 0;    ///< seconds for which it is occupied
};

/// The result of the model.
struct Forecast {
  double seconds = 0;           ///< until the last arrival
  double bound = 0;             ///< seconds; the lower bound for every schedule
  std::vector<LinkLoad> links;  ///< the busiest first; idle ones are included

  [[nodiscard]] double of_bound() const noexcept { return bound / seconds; }
  /// Seconds for which a direction of a link is occupied, on average.
  [[nodiscard]] double mean_load() const noexcept;
};

/// A schedule, prepared for several workloads. Each link carries the first of the ready sends in the list.
class ScheduleModel {
 public:
  /// tau: the strength of graph_of() the mesh. Throws Error(bad_input) for a schedule that is not sound.
  ScheduleModel(const Schedule& schedule, const Fraction& tau);
  /// slow: links of the mesh. Throws Error(bad_input) for costs that are negative or not finite, and
  /// Error(conflict) for sends that wait for each other.
  [[nodiscard]] Forecast run(const Workload& work, std::span<const SlowLink> slow = {}) const;

 private:
  Topology mesh_;
  Graph graph_;
  Fraction tau_;
  SendList sends_;  // times for a buffer of one byte
};

}  // namespace bitrift::comm
