// Shards that no driver runs.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "campaign/shard/lease.h"
#include "campaign/shard/shard_id.h"

namespace bitrift::campaign {

/// Watches the leases of all other shards, and takes one that has had no driver of its own for long enough.
class Vacancies {
 public:
  /// shards: DIR/shards. after: how long a shard must be without a driver of its own.
  Vacancies(std::filesystem::path shards, const ShardId& own, std::chrono::duration<double> after);
  /// The lease of a shard, or nullptr while it has a driver or has not been without one for long enough. Call
  /// it again and again: time counts from the first call that saw no driver. Throws Error(io).
  [[nodiscard]] std::unique_ptr<Lease> try_take(int shard);
  /// Its own driver wants it: time counts from now.
  void give_back(int shard);

 private:
  using Clock = std::chrono::steady_clock;
  struct Vacancy {
    int start = 0;                           // the last start that was seen; 0: there was none
    std::optional<Clock::time_point> since;  // nothing: it has a driver of its own
    std::unique_ptr<LeaseTaker> taker;
  };
  [[nodiscard]] std::filesystem::path folder_of(int shard) const;

  std::filesystem::path shards_;
  ShardId own_;
  std::chrono::duration<double> after_;
  Clock::time_point began_ = Clock::now();
  std::map<int, Vacancy> vacancies_;
};

}  // namespace bitrift::campaign
