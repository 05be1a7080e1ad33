// A schedule: which chip sends which part of a buffer to which neighbour, and in which order.
//
// What a schedule means. Every live chip has a buffer, divided into chunks of equal size (the first ones have
// one element more where that does not come out even). It begins as the chip's own gradient. A send has two
// parts, each done by one chip:
//
//   read   at `from`: the chunk of its buffer is read and sent
//   write  at `to`: what arrives is added to the chunk there (add), or replaces it (copy)
//
// Data arrive before they are written, so the write of a send begins after its read began and ends after its
// read ended. Apart from that, only `after` orders anything, and only where a chip can see it: a chip begins
// its part of a send when its own parts of all sends in `after` have ended. A chip does not know when the
// other chip's part ends. So every send in `after` must share a chip with the send that waits for it. Nothing
// promises room for data on their way: a read may last until the other chip is ready to write. So `after` may
// have no cycle, not even one in which no part waits for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/topology.h"

namespace bitrift::comm {

enum class SendKind : std::uint8_t { add, copy };
constexpr EnumNames<2> names_of(SendKind) { return {"kind of send", {"add", "copy"}}; }

/// The method that made a schedule.
enum class Scheme { ring, rings_2d, row_pairs, forwarding, trees, other };
constexpr EnumNames<6> names_of(Scheme) {
  return {"scheme of a schedule", {"ring", "rings-2d", "row-pairs", "forwarding", "trees", "other"}};
}

inline constexpr std::uint32_t most_chunks = 1U << 20U;
inline constexpr std::size_t most_sends = 1U << 24U;
/// The number of entries of `after` in all sends.
inline constexpr std::size_t most_waits = 1U << 26U;

struct Send {
  std::uint16_t from = 0, to = 0;  ///< chips
  std::uint32_t chunk = 0;
  SendKind kind = SendKind::add;
  bool operator==(const Send&) const = default;
};

class Schedule {
 public:
  Schedule() = default;
  Schedule(Topology topology, Scheme scheme, std::uint32_t chunks)
      : topology_(std::move(topology)), scheme_(scheme), chunks_(chunks) {}

  /// Appends a send, which begins after the sends with these indices; some of them may be appended later.
  /// Throws Error(unsupported) beyond most_sends or most_waits.
  void append(const Send& send, std::span<const std::uint32_t> after);
  void append(const Send& send, std::initializer_list<std::uint32_t> after) {
    append(send, std::span(after.begin(), after.size()));
  }

  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  [[nodiscard]] Scheme scheme() const noexcept { return scheme_; }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::size_t size() const noexcept { return sends_.size(); }
  [[nodiscard]] const Send& send(std::size_t index) const noexcept { return sends_[index]; }
  [[nodiscard]] const std::vector<Send>& sends() const noexcept { return sends_; }
  [[nodiscard]] std::span<const std::uint32_t> after(std::size_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : after_end_[index - 1];
    return std::span(after_).subspan(begin, after_end_[index] - begin);
  }
  /// "send 7 (chip 0 to chip 1, chunk 2, add)".
  [[nodiscard]] std::string name(std::size_t index) const;

  /// Throws Error(bad_input) for a mesh that is not connected, no or too many chunks, and a send whose chips,
  /// chunk or waits do not exist or that has the same chip at both ends.
  void require_sound() const;

  bool operator==(const Schedule&) const = default;

 private:
  Topology topology_;
  Scheme scheme_ = Scheme::other;
  std::uint32_t chunks_ = 1;
  std::vector<Send> sends_;
  std::vector<std::uint32_t> after_;      // the waits of all sends, one after another
  std::vector<std::uint32_t> after_end_;  // the end of each send's waits
};

}  // namespace bitrift::comm
