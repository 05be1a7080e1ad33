// A ring through all live chips.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/topology.h"

namespace bitrift::comm {

struct CycleSearch {
  std::vector<int> cycle;  ///< each live chip once, each linked to the next and the last to the first
  std::string why_not;     ///< in plain words, if there is no cycle
  bool proved = false;     ///< it is proved that there is none; otherwise the search gave up
};

/// A search extends a path chip by chip, and looks at every live chip in each step. Several searches begin at
/// different chips: if one gets lost in a corner, another often needs no step back.
inline constexpr int most_cycle_steps = 4'000;
inline constexpr int most_cycle_searches = 24;

/// If the mesh divides into 2x2 boards that are all wholly alive or wholly dead: around a spanning tree of
/// the live ones. Otherwise, or where dead links block that, by searches, each of which gives up after
/// most_cycle_steps. A single chip, or two, are a cycle of that length. The mesh must be connected.
[[nodiscard]] CycleSearch find_cycle(const Topology& topology);

}  // namespace bitrift::comm
