// Chips in a line or a ring, and the reduction of a chunk along them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/plan/reduction.h"
#include "comm/topology.h"

namespace bitrift::comm {

struct Lane {
  std::vector<int> chips;
  bool closed = false;  ///< the last is linked to the first
};

/// A row, or a column, with its dead chips; closed if the link that wraps around is alive.
[[nodiscard]] Lane row_lane(const Topology& topology, int row);
[[nodiscard]] Lane column_lane(const Topology& topology, int column);
/// Whether all of a line's chips are alive, and all links from each to the next.
[[nodiscard]] bool whole(const Topology& topology, const Lane& lane);

enum class Turn { forward, backward };

/// Moves a chunk's parts along the lane to the chip at `target`: around a ring in the given direction, in a
/// line from both ends.
void sweep(Reduction& reduction, const Lane& lane, std::size_t target, std::uint32_t chunk, Turn turn);

}  // namespace bitrift::comm
