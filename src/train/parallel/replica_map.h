// Which rank does the work of which replica and stage. Inside train/ only.
#pragma once

#include <vector>

namespace bitrift::train {

/// Logical replicas, each of some stages, on ranks. A rank holds one stage, and computes it for one replica
/// or for several: so a run can continue with fewer ranks and add the same terms in the same order. The work
/// of (replica r, stage s) is seat r x stages + s, the number of the rank that does it in a run that lost
/// none.
class ReplicaMap {
 public:
  /// Rank = seat.
  ReplicaMap(int replicas, int stages);
  /// hosts[seat] = rank. Throws Error(internal) when a rank is asked to hold two stages.
  ReplicaMap(int replicas, int stages, std::vector<int> hosts);

  [[nodiscard]] int replicas() const noexcept { return replicas_; }
  [[nodiscard]] int stages() const noexcept { return stages_; }
  [[nodiscard]] int host(int replica, int stage) const { return hosts_[seat(replica, stage)]; }
  [[nodiscard]] int stage_of_seat(int seat) const noexcept { return seat % stages_; }
  [[nodiscard]] const std::vector<int>& hosts() const noexcept { return hosts_; }
  /// Highest rank that works, plus one.
  [[nodiscard]] int ranks() const;
  /// Seats of a rank, ascending; empty: it has no work.
  [[nodiscard]] std::vector<int> seats(int rank) const;
  /// Replicas that a rank computes its stage for, ascending.
  [[nodiscard]] std::vector<int> replicas_on(int rank) const;
  /// The stage that a rank holds; 0 for a rank without a seat.
  [[nodiscard]] int stage_on(int rank) const;
  /// Ranks that hold a stage, ascending.
  [[nodiscard]] std::vector<int> ranks_of_stage(int stage) const;
  /// The most replicas that one rank computes.
  [[nodiscard]] int most_on_a_rank() const;
  bool operator==(const ReplicaMap&) const = default;

 private:
  [[nodiscard]] std::size_t seat(int replica, int stage) const {
    return static_cast<std::size_t>(replica) * static_cast<std::size_t>(stages_) +
           static_cast<std::size_t>(stage);
  }
  int replicas_, stages_;
  std::vector<int> hosts_;
};

/// The same seats on the remaining ranks. old_ranks[i]: the former rank of survivor i. A seat whose rank is
/// alive stays there; a seat without a rank goes to the survivor of the same stage with the fewest seats, the
/// lowest of those. A stage that no survivor holds is taken over by a survivor of the stage that has most
/// ranks; its own seats go to its peers. Throws Error(internal) when there are fewer survivors than stages.
[[nodiscard]] ReplicaMap shrunken(const ReplicaMap& before, const std::vector<int>& old_ranks);

}  // namespace bitrift::train
