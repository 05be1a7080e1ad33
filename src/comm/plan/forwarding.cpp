#include "comm/plan/forwarding.h"

#include <vector>

#include "comm/plan/hand_over.h"
#include "comm/plan/lane.h"
#include "comm/plan/reduction.h"
#include "core/error.h"

namespace bitrift::comm {
namespace {

struct WholeLane {
  std::size_t number;  // position in the row or column
  Lane lane;
};

}  // namespace

Schedule plan_forwarding(const Topology& topology) {
  topology.require_connected();
  std::vector<WholeLane> rows, columns;
  for (int row = 0; row < topology.rows(); ++row) {
    if (Lane lane = row_lane(topology, row); whole(topology, lane))
      rows.push_back({static_cast<std::size_t>(row), std::move(lane)});
  }
  for (int column = 0; column < topology.columns(); ++column) {
    if (Lane lane = column_lane(topology, column); whole(topology, lane))
      columns.push_back({static_cast<std::size_t>(column), std::move(lane)});
  }
  if (rows.empty() || columns.empty()) {
    fail(ErrorCode::unsupported,
         "forwarding: every {} has a dead chip or link, so there is none to forward to; use another schedule",
         rows.empty() ? "row" : "column");
  }
  bool both_ways = false;
  std::vector<bool> home(static_cast<std::size_t>(topology.chips()), false);
  for (const WholeLane& row : rows) {
    both_ways = both_ways || row.lane.closed;
    for (const int chip : row.lane.chips) home[static_cast<std::size_t>(chip)] = true;
  }
  for (const WholeLane& column : columns) both_ways = both_ways || column.lane.closed;
  const auto ways = ways_home(topology, home);
  const auto cells = static_cast<std::uint32_t>(rows.size() * columns.size());
  Reduction reduction(topology, Scheme::forwarding, both_ways ? 2 * cells : cells);
  for (std::uint32_t chunk = 0; chunk < reduction.chunks(); ++chunk) {
    const Turn turn = chunk < cells ? Turn::forward : Turn::backward;
    const WholeLane& row = rows[chunk % cells / columns.size()];
    const WholeLane& column = columns[chunk % cells % columns.size()];
    hand_over(reduction, ways, chunk);
    for (const WholeLane& one : rows) sweep(reduction, one.lane, column.number, chunk, turn);
    // Chips of rows that are not whole hold nothing any more: they pass on what arrives.
    sweep(reduction, column.lane, row.number, chunk, turn);
  }
  return reduction.allreduce();
}

}  // namespace bitrift::comm
