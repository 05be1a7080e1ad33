// What is to be done after ranks died: a pure function of what the survivors say. Inside train/ only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/json/keys.h"
#include "record/recovery.h"
#include "spec/mesh_spec.h"
#include "train/parallel/replica_map.h"
#include "train/recover/position.h"

namespace bitrift::train {

/// The state of a stage at some position: live in a session, or kept in a snapshot.
struct HeldState {
  Position at;
  int stage = 0, stages = 1;  ///< of the cut that it belongs to
  int replica = 0;            ///< the first of those that it was computed for
  bool operator==(const HeldState&) const = default;
};
constexpr auto keys_of(std::type_identity<HeldState>) {
  using record::Key;
  return std::tuple(Key{"at", &HeldState::at}, Key{"stage", &HeldState::stage},
                    Key{"stages", &HeldState::stages}, Key{"replica", &HeldState::replica});
}

/// What a survivor says of itself.
struct Report {
  int rank = -1;                  ///< in the group that worked before; -1: it waited, or is new
  std::optional<HeldState> live;  ///< of a rank that worked
  bool joined = false;            ///< it was spawned for this recovery
  bool prepared = false;          ///< it has the gradients of the next step, and lacks only the decision
  std::vector<HeldState> snapshots = {};
  std::optional<Position> file = {};  ///< of the last checkpoint file, where it knows the rest of that state
  std::int64_t reached = 0;           ///< steps behind it when it noticed
  double noticed = 0;                 ///< when it noticed, seconds of its machine's monotonic clock
};
constexpr auto keys_of(std::type_identity<Report>) {
  using record::Key;
  return std::tuple(Key{"rank", &Report::rank}, Key{"live", &Report::live}, Key{"joined", &Report::joined},
                    Key{"prepared", &Report::prepared}, Key{"snapshots", &Report::snapshots},
                    Key{"file", &Report::file}, Key{"reached", &Report::reached},
                    Key{"noticed", &Report::noticed});
}

/// What was decided, the same on all survivors.
struct RecoveryPlan {
  std::string refusal = {};                       ///< why the run cannot continue; then nothing else counts
  int missing = 0;                                ///< processes that must be spawned before there is a plan
  std::vector<int> workers = {};                  ///< reports of those who work, in their new order
  ReplicaMap map = ReplicaMap(1, 1);              ///< of their work
  std::optional<record::MeshSpec> mesh = {};      ///< their chips, by rank
  std::optional<record::StateSource> state = {};  ///< absent: nothing was lost
  bool rolls_back = false;                        ///< all ranks go back to a snapshot or a file
  Position target = {};                           ///< from which all continue
  int leader = 0;                                 ///< report of one who knows all of the run but the tensors
  std::vector<int> donors = {};                   ///< by stage of the old cut: report of who has its state
  std::vector<int> givers = {};        ///< by new rank: report of who gives its state, itself where it has
                                       ///< that; empty where the model is cut again, or with a file
  std::vector<int> failed = {};        ///< ranks that were lost, ascending
  std::vector<int> failed_seats = {};  ///< the work that they did: ranks as the run began
};

/// before, mesh: of the group that worked; reports: of all who live, by rank. The chip of a rank that is not
/// replaced is dead from then on; another process that takes a rank's place works on its chip.
[[nodiscard]] RecoveryPlan plan_recovery(const record::RecoverySpec& spec, const ReplicaMap& before,
                                         const std::vector<Report>& reports,
                                         const std::optional<record::MeshSpec>& mesh = {});

}  // namespace bitrift::train
