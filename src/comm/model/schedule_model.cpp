#include "comm/model/schedule_model.h"

#include <algorithm>

#include "comm/graph/topology_graph.h"
#include "comm/model/schedule_sends.h"

namespace bitrift::comm {

double Forecast::mean_load() const noexcept {
  double sum = 0;
  for (const LinkLoad& link : links) sum += link.seconds;
  return links.empty() ? 0 : sum / static_cast<double>(links.size());
}

ScheduleModel::ScheduleModel(const Schedule& schedule, const Fraction& tau)
    : mesh_(schedule.topology()), graph_(graph_of(mesh_)), tau_(tau), sends_(sends_of(schedule, 1)) {}

Forecast ScheduleModel::run(const Workload& work, std::span<const SlowLink> slow) const {
  // A buffer of one byte at bandwidth / bytes takes as long as the whole one at its bandwidth.
  LinkCost cost = work.cost;
  cost.bandwidth /= work.bytes;
  const LinkTimes times = simulate(graph_, cost, sends_, LinkOrder::priority, delays_of(mesh_, graph_, slow));
  const std::vector<int>& live = mesh_.live();
  Forecast out{.seconds = times.finish,
               .bound = bound_seconds(work.bytes, work.cost.bandwidth, tau_.value()),
               .links = {}};
  for (std::size_t i = 0; i < graph_.edges().size(); ++i) {
    const int a = live[at_index(graph_.edges()[i].a)], b = live[at_index(graph_.edges()[i].b)];
    out.links.push_back({a, b, times.forward[i]});
    out.links.push_back({b, a, times.backward[i]});
  }
  std::stable_sort(out.links.begin(), out.links.end(),
                   [](const LinkLoad& one, const LinkLoad& other) { return one.seconds > other.seconds; });
  return out;
}

}  // namespace bitrift::comm
