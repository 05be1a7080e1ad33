#include "comm/plan/hand_over.h"

#include <algorithm>

namespace bitrift::comm {

std::vector<std::pair<int, int>> ways_home(const Topology& topology, const std::vector<bool>& home) {
  std::vector<int> open;
  std::vector<bool> met = home;
  for (const int chip : topology.live()) {
    if (home[static_cast<std::size_t>(chip)]) open.push_back(chip);
  }
  std::vector<std::pair<int, int>> ways;
  for (std::size_t done = 0; done < open.size(); ++done) {
    for (const int next : topology.neighbours(open[done])) {
      if (met[static_cast<std::size_t>(next)]) continue;
      met[static_cast<std::size_t>(next)] = true;
      ways.emplace_back(next, open[done]);
      open.push_back(next);
    }
  }
  std::reverse(ways.begin(), ways.end());
  return ways;
}

void hand_over(Reduction& reduction, const std::vector<std::pair<int, int>>& ways, std::uint32_t chunk) {
  for (const auto& [chip, next] : ways) reduction.move(chip, next, chunk);
}

std::vector<int> shortest_path(const Topology& topology, int from, int to) {
  std::vector<bool> home(static_cast<std::size_t>(topology.chips()), false);
  home[static_cast<std::size_t>(to)] = true;
  std::vector<int> next(home.size(), to);
  for (const auto& [chip, way] : ways_home(topology, home)) next[static_cast<std::size_t>(chip)] = way;
  std::vector<int> path{from};
  while (path.back() != to) path.push_back(next[static_cast<std::size_t>(path.back())]);
  return path;
}

}  // namespace bitrift::comm
