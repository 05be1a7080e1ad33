// A schedule's demands on the links: sends and the waits between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bitrift::comm {

/// The place of a send in its list.
using SendId = std::uint32_t;

/// Sends between neighbouring chips, kept in flat arrays: millions of them fit in a few hundred MB.
class SendList {
 public:
  /// Appends a send; `after`: the sends that it waits for, earlier or later in the list. Throws
  /// Error(unsupported) for more than 2^32 - 2 sends or waits.
  SendId add(int from, int to, double bytes, std::span<const SendId> after);
  void reserve(std::size_t sends, std::size_t waits);

  [[nodiscard]] std::size_t size() const noexcept { return from_.size(); }
  [[nodiscard]] int from(SendId send) const noexcept { return from_[send]; }
  [[nodiscard]] int to(SendId send) const noexcept { return to_[send]; }
  [[nodiscard]] double bytes(SendId send) const noexcept { return bytes_[send]; }
  [[nodiscard]] std::span<const SendId> after(SendId send) const noexcept {
    return std::span(after_).subspan(first_[send], first_[send + 1] - first_[send]);
  }
  [[nodiscard]] std::size_t waits() const noexcept { return after_.size(); }

 private:
  std::vector<int> from_, to_;
  std::vector<double> bytes_;
  std::vector<SendId> after_;               // send by send
  std::vector<std::uint32_t> first_ = {0};  // the first entry of a send in after_; one more at the end
};

/// The sends by their start in a run of the model; at the same time, in the order of the list.
[[nodiscard]] std::vector<SendId> order_of_start(const std::vector<double>& start);
/// The same sends in another order: send i of the result is send order[i]. Listed by their start in
/// LinkOrder::priority, they take the same time in LinkOrder::listed: each link then has a fixed order that a
/// program can follow without a clock.
[[nodiscard]] SendList reordered(const SendList& sends, const std::vector<SendId>& order);

}  // namespace bitrift::comm
