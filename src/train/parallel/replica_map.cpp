#include "train/parallel/replica_map.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/error.h"

namespace bitrift::train {

ReplicaMap::ReplicaMap(int replicas, int stages)
    : replicas_(replicas), stages_(stages), hosts_(static_cast<std::size_t>(replicas * stages)) {
  std::iota(hosts_.begin(), hosts_.end(), 0);
}

ReplicaMap::ReplicaMap(int replicas, int stages, std::vector<int> hosts)
    : replicas_(replicas), stages_(stages), hosts_(std::move(hosts)) {
  if (hosts_.size() != static_cast<std::size_t>(replicas * stages))
    fail(ErrorCode::internal, "{} replicas of {} stages need {} hosts, not {}", replicas, stages,
         replicas * stages, hosts_.size());
  for (int one = 0; one < ranks(); ++one) {
    for (const int other : seats(one)) {
      if (stage_of_seat(other) != stage_on(one))
        fail(ErrorCode::internal, "rank {} cannot hold stages {} and {}", one, stage_on(one),
             stage_of_seat(other));
    }
  }
}

int ReplicaMap::ranks() const { return *std::max_element(hosts_.begin(), hosts_.end()) + 1; }

std::vector<int> ReplicaMap::seats(int rank) const {
  std::vector<int> mine;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i] == rank) mine.push_back(static_cast<int>(i));
  }
  return mine;
}

std::vector<int> ReplicaMap::replicas_on(int rank) const {
  std::vector<int> mine = seats(rank);
  for (int& one : mine) one /= stages_;
  return mine;
}

int ReplicaMap::stage_on(int rank) const {
  const std::vector<int> mine = seats(rank);
  return mine.empty() ? 0 : stage_of_seat(mine.front());
}

std::vector<int> ReplicaMap::ranks_of_stage(int stage) const {
  std::set<int> ranks;
  for (int replica = 0; replica < replicas_; ++replica) ranks.insert(host(replica, stage));
  return {ranks.begin(), ranks.end()};
}

int ReplicaMap::most_on_a_rank() const {
  std::size_t most = 0;
  for (int rank = 0; rank < ranks(); ++rank) most = std::max(most, seats(rank).size());
  return static_cast<int>(most);
}

namespace {

// The stage of each survivor, so that every stage has one.
std::vector<int> stages_of_survivors(const ReplicaMap& before, const std::vector<int>& old_ranks) {
  std::vector<int> stages(old_ranks.size());
  for (std::size_t i = 0; i < old_ranks.size(); ++i) stages[i] = before.stage_on(old_ranks[i]);
  const auto count = [&](int stage) { return std::count(stages.begin(), stages.end(), stage); };
  for (int stage = 0; stage < before.stages(); ++stage) {
    if (count(stage) > 0) continue;
    int richest = 0;
    for (int other = 1; other < before.stages(); ++other) {
      if (count(other) > count(richest)) richest = other;
    }
    if (count(richest) < 2)
      fail(ErrorCode::internal, "{} ranks cannot hold {} stages", old_ranks.size(), before.stages());
    // The last of them, so that the lowest ranks keep their stage.
    const auto giver = std::find(stages.rbegin(), stages.rend(), richest);
    *giver = stage;
  }
  return stages;
}

}  // namespace

ReplicaMap shrunken(const ReplicaMap& before, const std::vector<int>& old_ranks) {
  const std::vector<int> stages = stages_of_survivors(before, old_ranks);
  const int seats = before.replicas() * before.stages();
  std::vector<int> hosts(static_cast<std::size_t>(seats), -1);
  std::vector<int> load(old_ranks.size(), 0);
  for (int seat = 0; seat < seats; ++seat) {
    const auto lives =
        std::find(old_ranks.begin(), old_ranks.end(), before.hosts()[static_cast<std::size_t>(seat)]);
    const auto rank = static_cast<std::size_t>(lives - old_ranks.begin());
    if (lives == old_ranks.end() || stages[rank] != before.stage_of_seat(seat)) continue;
    hosts[static_cast<std::size_t>(seat)] = static_cast<int>(rank);
    ++load[rank];
  }
  for (int seat = 0; seat < seats; ++seat) {
    if (hosts[static_cast<std::size_t>(seat)] >= 0) continue;
    int best = -1;
    for (std::size_t rank = 0; rank < stages.size(); ++rank) {
      const bool fits = stages[rank] == before.stage_of_seat(seat);
      if (fits && (best < 0 || load[rank] < load[static_cast<std::size_t>(best)]))
        best = static_cast<int>(rank);
    }
    hosts[static_cast<std::size_t>(seat)] = best;
    ++load[static_cast<std::size_t>(best)];
  }
  return {before.replicas(), before.stages(), std::move(hosts)};
}

}  // namespace bitrift::train
