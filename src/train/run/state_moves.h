// Moves state between the ranks of a recovery. Inside train/ only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/recover/recovery_plan.h"
#include "train/recover/run_ledger.h"
#include "train/recover/snapshots.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// rng/ and progress/, which every rank holds.
[[nodiscard]] StateCopy shared_state(Session& session);

/// Moves state as a plan says: from whom to whom. Make one after set_workers() and before spread(), because
/// that may change what this rank has to give; run it after spread().
class StateMoves {
 public:
  /// stages: of the earlier cut. Local.
  StateMoves(TrainerState& state, Snapshots& snapshots, const RecoveryPlan& plan, int stages);
  /// Afterwards the session is at the plan's target, except for what the recovery has to forget. Collective
  /// over the team. Throws RankFailed; and as ckpt::Reader and load_session() do if state comes from a file.
  void run(const Ledger& ledger);
  /// The state that came to this rank.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] const std::string& kept(int rank) const;
  [[nodiscard]] StateCopy stage_from_all(int stage);
  void receive(const Ledger& ledger, int rank);
  void load_file(const std::filesystem::path& path);
  void write_shared(const StateCopy& shared);
  void forget();

  TrainerState& state_;
  Snapshots& snapshots_;
  const RecoveryPlan& plan_;
  int stages_;
  int me_;                                             // in everyone()
  std::vector<std::pair<int, std::string>> outgoing_;  // by rank in everyone()
  std::uint64_t bytes_ = 0;
};

}  // namespace bitrift::train
