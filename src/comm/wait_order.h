// The order that the waits of a schedule impose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// The part of a send that one of its chips does.
enum class Part : std::uint8_t { read, write };

class WaitOrder {
 public:
  /// The schedule must be sound, and outlive this object.
  explicit WaitOrder(const Schedule& schedule);

  /// Sends that wait for each other, in plain words; empty if there are none.
  [[nodiscard]] const std::optional<std::string>& cycle() const noexcept { return cycle_; }
  /// All sends, each after those that it waits for: list order, if that is one. Only without a cycle.
  [[nodiscard]] const std::vector<std::uint32_t>& order() const noexcept { return order_; }
  /// Sends of the longest chain of waits.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }

  /// Whether a part of a send ends before a part of another begins, however the chips' speeds differ. Both
  /// parts are done by the same chip, and `first` is earlier in order(). Throws Error(unsupported) when all
  /// answers together have taken more than 2^30 steps.
  [[nodiscard]] bool ordered(std::uint32_t first, Part first_part, std::uint32_t second, Part second_part);

 private:
  void find_order();
  void find_cycle(const std::vector<std::uint32_t>& missing);
  void find_steps();
  bool search(std::uint32_t first, Part first_part, std::uint32_t second, Part second_part);

  const Schedule& schedule_;
  std::optional<std::string> cycle_;
  std::vector<std::uint32_t> order_, position_;
  std::size_t steps_ = 0;
  std::uint64_t searched_ = 0;
  std::uint32_t search_ = 0;         // number of the search
  std::vector<std::uint32_t> seen_;  // the last search that reached a part of a send
  std::vector<std::uint64_t> open_;
};

}  // namespace bitrift::comm
