#include "mpi/local_schedule.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::mpi {
namespace {

constexpr std::uint32_t no_step = ~0U;

/// The steps of this rank that used each chunk last.
class ChunkUses {
 public:
  explicit ChunkUses(std::uint32_t chunks) : uses_(chunks) {}

  /// Adds the steps that must precede this one to `after`.
  void note(std::uint32_t index, const LocalSchedule::Step& step, std::vector<std::uint32_t>& after) {
    Uses& uses = uses_[step.chunk];
    if (uses.write != no_step) after.push_back(uses.write);
    if (step.part == comm::Part::read) {
      uses.reads.push_back(index);
      return;
    }
    after.insert(after.end(), uses.reads.begin(), uses.reads.end());
    uses.write = index;
    uses.reads.clear();
  }

 private:
  struct Uses {
    std::uint32_t write = no_step;
    std::vector<std::uint32_t> reads = {};  // since then
  };
  std::vector<Uses> uses_;
};

LocalSchedule::Queue& queue_of(std::vector<LocalSchedule::Queue>& queues, int rank) {
  const auto found = std::ranges::find(queues, rank, &LocalSchedule::Queue::rank);
  return found != queues.end() ? *found : queues.emplace_back(LocalSchedule::Queue{rank});
}

}  // namespace

LocalSchedule::LocalSchedule(const comm::Schedule& schedule, int rank)
    : rank_(rank), ranks_(static_cast<int>(schedule.topology().live().size())), chunks_(schedule.chunks()) {
  schedule.require_sound();
  const std::vector<int>& live = schedule.topology().live();
  if (rank < 0 || rank >= ranks_)
    fail(ErrorCode::bad_input, "rank {} has no chip: the schedule is for {} live chips", rank, ranks_);
  const comm::WaitOrder order(schedule);
  if (order.cycle()) fail(ErrorCode::bad_input, "the schedule cannot be run: {}", *order.cycle());
  const int chip = live[static_cast<std::size_t>(rank)];
  std::vector<std::uint32_t> mine(schedule.size(), no_step);  // this rank's part of each send
  std::vector<std::uint32_t> after;
  ChunkUses uses(chunks_);
  for (const std::uint32_t index : order.order()) {
    const comm::Send& send = schedule.send(index);
    if (send.from != chip && send.to != chip) continue;
    const bool reads = send.from == chip;
    const int other = reads ? send.to : send.from;
    if (!schedule.topology().alive(other))
      fail(ErrorCode::bad_input, "{} cannot be run: chip {} is dead", schedule.name(index), other);
    after.clear();
    for (const std::uint32_t before : schedule.after(index)) {
      if (mine[before] != no_step) after.push_back(mine[before]);
    }
    const auto number = mine[index] = static_cast<std::uint32_t>(steps_.size());
    const Step step{send.chunk, reads ? comm::Part::read : comm::Part::write, send.kind, index};
    uses.note(number, step, after);
    append(step, after);
    const auto other_rank = static_cast<int>(std::ranges::lower_bound(live, other) - live.begin());
    queue_of(reads ? outgoing_ : incoming_, other_rank).steps.push_back(number);
  }
}

void LocalSchedule::append(const Step& step, std::vector<std::uint32_t>& after) {
  std::ranges::sort(after);
  const auto doubled = std::unique(after.begin(), after.end());
  steps_.push_back(step);
  waits_.insert(waits_.end(), after.begin(), doubled);
  wait_end_.push_back(waits_.size());
}

}  // namespace bitrift::mpi
