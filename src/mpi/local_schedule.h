// One rank's share of an allreduce schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/mesh_schedule.h"
#include "comm/wait_order.h"

namespace bitrift::mpi {

/// The parts of sends that one rank does, where rank i is the i-th live chip. Made once, used for every call.
///
/// Each directed link is a queue. Its messages are sent in one order, received in the same one and written in
/// the same one: that of all sends in which each comes after those that it waits for (comm::WaitOrder). So
/// messages need no tags of their own, of which MPI has too few. No run gets stuck by this: of the sends that
/// have not ended, the first in that order waits for nothing.
class LocalSchedule {
 public:
  struct Step {
    std::uint32_t chunk = 0;
    comm::Part part = comm::Part::read;
    comm::SendKind kind = comm::SendKind::add;
    std::uint32_t send = 0;  ///< its position in the whole schedule
  };
  /// Messages to or from one neighbour, as indices of steps.
  struct Queue {
    int rank = 0;
    std::vector<std::uint32_t> steps = {};
  };

  /// comm::verify must have proved the schedule: here only schedules that would exceed the arrays or
  /// certainly hang are refused, with Error(bad_input), as is a rank without a live chip.
  LocalSchedule(const comm::Schedule& schedule, int rank);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Live chips.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  [[nodiscard]] const Step& step(std::uint32_t index) const noexcept { return steps_[index]; }
  /// Steps of this rank that must have ended before this one begins: those that the schedule names and, as
  /// MPI demands, every use of the chunk that this one would disturb. The schedule need not name a send whose
  /// data certainly arrived; MPI may not have told the sender yet.
  [[nodiscard]] std::span<const std::uint32_t> waits(std::uint32_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : wait_end_[index - 1];
    return std::span(waits_).subspan(begin, wait_end_[index] - begin);
  }
  [[nodiscard]] const std::vector<Queue>& outgoing() const noexcept { return outgoing_; }
  [[nodiscard]] const std::vector<Queue>& incoming() const noexcept { return incoming_; }

 private:
  void append(const Step& step, std::vector<std::uint32_t>& after);

  int rank_, ranks_;
  std::uint32_t chunks_;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> waits_;  // waits of all steps, one after another
  std::vector<std::size_t> wait_end_;
  std::vector<Queue> outgoing_, incoming_;
};

}  // namespace bitrift::mpi
