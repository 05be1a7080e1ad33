// Turns sends in the order of a serial program into a schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// Finds the waits: a send comes after the last write to the chunk that it reads and, at its target, after
/// the reads since the last write there, or after that write. These are all the waits that the serial
/// program's result needs, and none is implied by others.
class ScheduleBuilder {
 public:
  ScheduleBuilder(const Topology& topology, Scheme scheme, std::uint32_t chunks);
  /// Throws Error(unsupported) beyond the limits of a schedule.
  void append(const Send& send);
  /// Sends are in the order of the calls.
  [[nodiscard]] const Schedule& schedule() const noexcept { return schedule_; }
  /// Sends are in steps: a send follows all sends of lower steps, where a step is the length of the longest
  /// chain of waits that ends there. Within a step, those that start longer chains come first.
  [[nodiscard]] Schedule in_steps() const;

 private:
  static constexpr std::uint32_t none_ = ~0U;
  struct Uses {
    std::uint32_t write = none_;
    std::uint32_t reader = none_;  // the last read since the write
  };
  [[nodiscard]] Uses& uses(int chip, std::uint32_t chunk) {
    return uses_[static_cast<std::size_t>(chip) * schedule_.chunks() + chunk];
  }

  Schedule schedule_;
  std::vector<Uses> uses_;                    // for each chunk at each chip
  std::vector<std::uint32_t> reader_before_;  // for each send: the send before it that reads the same chunk
};

}  // namespace bitrift::comm
