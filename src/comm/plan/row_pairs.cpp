#include "comm/plan/row_pairs.h"

#include <algorithm>
#include <vector>

#include "comm/plan/hand_over.h"
#include "comm/plan/lane.h"
#include "comm/plan/reduction.h"
#include "core/error.h"

namespace bitrift::comm {
namespace {

/// The columns [first, end) of the rows `row` and `row + 1`: along one row, and back along the other.
Lane ring_of(const Topology& topology, int row, int first, int end) {
  Lane lane;
  for (int column = first; column < end; ++column) lane.chips.push_back(topology.chip({row, column}));
  for (int column = end; column-- > first;) lane.chips.push_back(topology.chip({row + 1, column}));
  lane.closed = lane.chips.size() > 2;
  return lane;
}

/// The rings into which two rows divide; one if they are whole.
std::vector<Lane> rings_in(const Topology& topology, int row) {
  std::vector<Lane> rings;
  const auto upright = [&](int column) {
    return topology.linked(topology.chip({row, column}), topology.chip({row + 1, column}));
  };
  const auto flat = [&](int column) {  // whether both links to the next column are alive
    return topology.linked(topology.chip({row, column}), topology.chip({row, column + 1})) &&
           topology.linked(topology.chip({row + 1, column}), topology.chip({row + 1, column + 1}));
  };
  for (int first = 0; first < topology.columns();) {
    if (!upright(first)) {
      ++first;
      continue;
    }
    int end = first + 1;
    while (end < topology.columns() && flat(end - 1)) ++end;
    while (!upright(end - 1)) --end;
    rings.push_back(ring_of(topology, row, first, end));
    first = end;
  }
  return rings;
}

/// The way from the ring position of one whole pair to that of another: along the column if that is alive.
std::vector<int> way_between(const Topology& topology, int from, int to) {
  const int step =
      topology.place(to).row > topology.place(from).row ? topology.columns() : -topology.columns();
  std::vector<int> path{from};
  while (path.back() != to) {
    const int next = path.back() + step;
    if (!topology.linked(path.back(), next)) return shortest_path(topology, from, to);
    path.push_back(next);
  }
  return path;
}

struct Rings {
  std::vector<Lane> whole;   // of whole pairs
  std::vector<Lane> broken;  // of other pairs
};

Rings find_rings(const Topology& topology) {
  Rings rings;
  const auto full = 2 * static_cast<std::size_t>(topology.columns());
  // With an odd number of rows, the last one has no partner.
  for (int row = 0; row + 1 < topology.rows(); row += 2) {
    for (Lane& ring : rings_in(topology, row))
      (ring.chips.size() == full ? rings.whole : rings.broken).push_back(std::move(ring));
  }
  if (rings.whole.empty()) {
    fail(ErrorCode::unsupported,
         "row-pairs: no pair of rows (0 and 1, 2 and 3, ...) is whole, so there is none to hand gradients "
         "to; use another schedule");
  }
  return rings;
}

}  // namespace

Schedule plan_row_pairs(const Topology& topology) {
  topology.require_connected();
  const Rings rings = find_rings(topology);
  std::vector<bool> home(static_cast<std::size_t>(topology.chips()), false);
  for (const Lane& ring : rings.whole) {
    for (const int chip : ring.chips) home[static_cast<std::size_t>(chip)] = true;
  }
  const auto ways = ways_home(topology, home);
  const std::size_t size = rings.whole.front().chips.size();
  const std::size_t pairs = rings.whole.size();
  const auto homes = static_cast<std::uint32_t>(size * pairs);
  Reduction reduction(topology, Scheme::row_pairs, size > 2 ? 2 * homes : homes);
  for (std::size_t position = 0; position < size; ++position) {
    std::vector<std::vector<int>> down, up;  // the ways from each whole pair to the next, and back
    for (std::size_t pair = 0; pair + 1 < pairs; ++pair) {
      down.push_back(
          way_between(topology, rings.whole[pair].chips[position], rings.whole[pair + 1].chips[position]));
      up.emplace_back(down.back().rbegin(), down.back().rend());
    }
    for (auto chunk = static_cast<std::uint32_t>(position); chunk < reduction.chunks();
         chunk += static_cast<std::uint32_t>(size)) {
      const Turn turn = chunk < homes ? Turn::forward : Turn::backward;
      const std::size_t target = chunk % homes / size;
      for (const Lane& ring : rings.broken) sweep(reduction, ring, chunk % ring.chips.size(), chunk, turn);
      hand_over(reduction, ways, chunk);
      for (const Lane& ring : rings.whole) sweep(reduction, ring, position, chunk, turn);
      for (std::size_t pair = 0; pair < target; ++pair) reduction.move_along(down[pair], chunk);
      for (std::size_t pair = pairs - 1; pair > target; --pair) reduction.move_along(up[pair - 1], chunk);
    }
  }
  return reduction.allreduce();
}

}  // namespace bitrift::comm
