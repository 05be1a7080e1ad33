#include "comm/plan/ring.h"

#include "comm/graph/hamiltonian.h"
#include "comm/plan/lane.h"
#include "comm/plan/reduction.h"
#include "core/error.h"

namespace bitrift::comm {

Schedule plan_ring(const Topology& topology) {
  topology.require_connected();
  const std::size_t chips = topology.live().size();
  if (chips > most_ring_chips) {
    fail(ErrorCode::unsupported, "ring: {} live chips need more than {} sends; use another schedule", chips,
         most_sends);
  }
  const CycleSearch found = find_cycle(topology);
  if (found.cycle.empty()) {
    fail(ErrorCode::unsupported, "ring: {} ring through all {} live chips: {}; use another schedule",
         found.proved ? "there is no" : "found no", chips, found.why_not);
  }
  const Lane lane{found.cycle, found.cycle.size() > 2};
  const auto size = static_cast<std::uint32_t>(found.cycle.size());
  Reduction reduction(topology, Scheme::ring, lane.closed ? 2 * size : size);
  for (std::uint32_t chunk = 0; chunk < reduction.chunks(); ++chunk)
    sweep(reduction, lane, chunk % size, chunk, chunk < size ? Turn::forward : Turn::backward);
  return reduction.allreduce();
}

}  // namespace bitrift::comm
