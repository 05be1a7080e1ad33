#include "comm/plan/lane.h"

namespace bitrift::comm {
namespace {

Lane lane_of(const Topology& topology, std::vector<int> chips) {
  const bool closed = chips.size() > 2 && topology.linked(chips.back(), chips.front());
  return {std::move(chips), closed};
}

}  // namespace

Lane row_lane(const Topology& topology, int row) {
  std::vector<int> chips;
  chips.reserve(static_cast<std::size_t>(topology.columns()));
  for (int column = 0; column < topology.columns(); ++column) chips.push_back(topology.chip({row, column}));
  return lane_of(topology, std::move(chips));
}

Lane column_lane(const Topology& topology, int column) {
  std::vector<int> chips;
  chips.reserve(static_cast<std::size_t>(topology.rows()));
  for (int row = 0; row < topology.rows(); ++row) chips.push_back(topology.chip({row, column}));
  return lane_of(topology, std::move(chips));
}

bool whole(const Topology& topology, const Lane& lane) {
  for (std::size_t i = 0; i < lane.chips.size(); ++i) {
    if (!topology.alive(lane.chips[i])) return false;
    if (i > 0 && !topology.linked(lane.chips[i - 1], lane.chips[i])) return false;
  }
  return true;
}

void sweep(Reduction& reduction, const Lane& lane, std::size_t target, std::uint32_t chunk, Turn turn) {
  const std::size_t size = lane.chips.size();
  if (lane.closed) {
    const std::size_t step = turn == Turn::forward ? 1 : size - 1;
    std::size_t at = target;
    for (std::size_t i = 1; i < size; ++i) {
      at = (at + step) % size;
      reduction.move(lane.chips[at], lane.chips[(at + step) % size], chunk);
    }
    return;
  }
  for (std::size_t i = 0; i < target; ++i) reduction.move(lane.chips[i], lane.chips[i + 1], chunk);
  for (std::size_t i = size - 1; i > target; --i) reduction.move(lane.chips[i], lane.chips[i - 1], chunk);
}

}  // namespace bitrift::comm
