// Turns sends in the order of a serial program into a schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// Finds the waits: a send comes behind the last write to the chunk that it reads and, at its target, behind
/// the reads since the last write there, or behind that write. These are all the waits that the serial
/// program's result needs, and all are direct.
class ScheduleBuilder {
 public:
  ScheduleBuilder(const Topology& topology, Scheme scheme, std::uint32_t chunks);
  /// Throws Error(unsupported) beyond the limits of a schedule.
  void append(const Send& send);
  /// In the order of the calls.
  [[nodiscard]] const Schedule& schedule() const noexcept { return schedule_; }
  /// In steps: a send follows all sends of lower steps, a step being the length of the longest chain of waits
  /// that ends there. Within a step, those that start longer chains come first.
  [[nodiscard]] Schedule in_steps() const;

 private:
  static constexpr std::uint32_t none_ = ~0U;
  struct Uses {
    std::uint32_t write = none_;
    std::uint32_t reader = none_;  // the last one since the write
  };
  [[nodiscard]] Uses& uses(int chip, std::uint32_t chunk) {
    return uses_[static_cast<std::size_t>(chip) * schedule_.chunks() + chunk];
  }

  Schedule schedule_;
  std::vector<Uses> uses_;                    // of each chunk at each chip
  std::vector<std::uint32_t> reader_before_;  // of each send: the one before it that reads the same
};

}  // namespace bitrift::comm
