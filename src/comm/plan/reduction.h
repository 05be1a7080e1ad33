// A reduction as moves of partial sums, and the allreduce that follows from it.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// Every chip holds a part of every chunk's sum, its own gradient at first. A move hands a chip's part over
/// to a neighbour. When one chip holds all of a chunk, the moves played backwards as copies bring the sum to
/// all.
class Reduction {
 public:
  /// Throws Error(bad_input) for a mesh that is not connected.
  Reduction(const Topology& topology, Scheme scheme, std::uint32_t chunks);

  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_; }
  /// Adds the chip's part to the neighbour's. If the neighbour has handed its part over already, the arriving
  /// part replaces the remains there. Does nothing if the chip has no part. The two must be linked.
  void move(int from, int to, std::uint32_t chunk);
  /// Moves along each hop of a path.
  void move_along(const std::vector<int>& path, std::uint32_t chunk);
  /// Sends in steps. Throws Error(internal) if several chips still hold parts of a chunk, and
  /// Error(unsupported) beyond the limits of a schedule.
  [[nodiscard]] Schedule allreduce() const;

 private:
  [[nodiscard]] std::size_t at(int chip, std::uint32_t chunk) const noexcept {
    return static_cast<std::size_t>(chip) * chunks_ + chunk;
  }

  const Topology& topology_;
  Scheme scheme_;
  std::uint32_t chunks_;
  std::vector<bool> holds_;  // the state of each chunk at each chip
  std::vector<Send> moves_;
};

}  // namespace bitrift::comm
