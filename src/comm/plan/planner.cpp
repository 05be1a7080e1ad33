#include "comm/plan/planner.h"

#include "comm/plan/forwarding.h"
#include "comm/plan/ring.h"
#include "comm/plan/rings_2d.h"
#include "comm/plan/row_pairs.h"
#include "comm/plan/trees.h"
#include "core/error.h"

namespace bitrift::comm {

Schedule plan_schedule(const Topology& topology, Scheme scheme, const Workload& work) {
  topology.require_connected();
  switch (scheme) {
    case Scheme::ring:
      return plan_ring(topology);
    case Scheme::rings_2d:
      return plan_rings_2d(topology);
    case Scheme::forwarding:
      return plan_forwarding(topology);
    case Scheme::row_pairs:
      return plan_row_pairs(topology);
    case Scheme::trees:
      return plan_trees(topology, work);
    case Scheme::other:
      break;
  }
  fail(ErrorCode::unsupported,
       "nothing plans the schedule '{}'; use ring, rings-2d, row-pairs, forwarding or trees",
       name_of(scheme));
}

}  // namespace bitrift::comm
