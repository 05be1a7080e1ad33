// A ring through all live chips.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/topology.h"

namespace bitrift::comm {

struct CycleSearch {
  std::vector<int> cycle;  ///< each live chip once, each linked to the next and the last to the first
  std::string why_not;     ///< in plain words, where there is no cycle
  bool proved = false;     ///< that there is none; otherwise the search gave up
};

/// If the mesh divides into 2x2 boards that are all wholly alive or wholly dead: around a spanning tree of
/// the live ones. Otherwise, or where dead links block that, a search that gives up after most_cycle_steps.
/// A single chip, or two, are a cycle of that length. The mesh must be connected.
[[nodiscard]] CycleSearch find_cycle(const Topology& topology);

/// Steps of the search, each of which looks at every live chip.
inline constexpr int most_cycle_steps = 20'000;

}  // namespace bitrift::comm
