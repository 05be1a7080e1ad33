// The chips whose gradients are in one chunk of every chip's buffer, without any numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/topology.h"

namespace bitrift::comm {

/// One chunk at all chips. For each chip and gradient it counts 0, 1, or 2 and more. A count only falls where
/// a copy replaces all of them, so a gradient that was counted twice never counts once again.
class Contributors {
 public:
  explicit Contributors(const Topology& topology);

  /// Every live chip holds its own gradient, once.
  void begin();
  void add(int from, int to);
  void copy(int from, int to);

  /// How often a chip's chunk holds a gradient: 0, 1 or 2 (and more).
  [[nodiscard]] int count(int chip, int gradient) const noexcept;
  /// A live chip, and a live chip whose gradient it does not hold exactly once.
  [[nodiscard]] std::optional<std::pair<int, int>> wrong() const;
  /// Whether all live chips hold sums that were added up in the same order, except that the two sides of an
  /// addition may have changed places.
  [[nodiscard]] bool one_order() const noexcept;

 private:
  [[nodiscard]] std::size_t row(int chip) const noexcept {
    return static_cast<std::size_t>(index_[static_cast<std::size_t>(chip)]) * 2 * words_;
  }

  std::vector<int> live_;
  std::vector<int> index_;           // number of a chip among the live ones; -1: dead
  std::size_t words_;                // of 64 gradients each
  std::vector<std::uint64_t> bits_;  // for each live chip: the gradients that it holds, then those that it
                                     // holds more than once
  std::vector<std::uint64_t> all_;   // a row in which everything is held once
  std::vector<std::uint32_t> sum_;   // for each live chip: the number of the sum it holds
  std::unordered_map<std::uint64_t, std::uint32_t> sums_;  // the sum of two sums; the lower number first
  std::uint32_t next_sum_ = 0;
};

}  // namespace bitrift::comm
