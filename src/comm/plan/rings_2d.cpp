#include "comm/plan/rings_2d.h"

#include <vector>

#include "comm/plan/lane.h"
#include "comm/plan/reduction.h"
#include "core/error.h"

namespace bitrift::comm {

Schedule plan_rings_2d(const Topology& topology) {
  if (const auto dead = topology.dead(); !dead.empty() || !topology.dead_links().empty()) {
    fail(ErrorCode::unsupported, "rings-2d: needs a whole mesh, and {} is dead; use another schedule",
         dead.empty() ? "a link" : topology.name(dead.front()));
  }
  std::vector<Lane> rows, columns;
  for (int row = 0; row < topology.rows(); ++row) rows.push_back(row_lane(topology, row));
  for (int column = 0; column < topology.columns(); ++column)
    columns.push_back(column_lane(topology, column));
  const bool both_ways = rows.front().closed || columns.front().closed;
  const auto chips = static_cast<std::uint32_t>(topology.chips());
  Reduction reduction(topology, Scheme::rings_2d, both_ways ? 2 * chips : chips);
  for (std::uint32_t chunk = 0; chunk < reduction.chunks(); ++chunk) {
    const Turn turn = chunk < chips ? Turn::forward : Turn::backward;
    const Place home = topology.place(static_cast<int>(chunk % chips));
    for (const Lane& row : rows) sweep(reduction, row, static_cast<std::size_t>(home.column), chunk, turn);
    sweep(reduction, columns[static_cast<std::size_t>(home.column)], static_cast<std::size_t>(home.row),
          chunk, turn);
  }
  return reduction.allreduce();
}

}  // namespace bitrift::comm
