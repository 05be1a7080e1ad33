// Decides what to do after ranks died: a pure function of the survivors' reports. Inside train/ only.
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
  int replica = 0;            ///< the first of those for which it was computed
  bool operator==(const HeldState&) const = default;
};
constexpr auto keys_of(std::type_identity<HeldState>) {
  using record::Key;
  return std::tuple(Key{"at", &HeldState::at}, Key{"stage", &HeldState::stage},
                    Key{"stages", &HeldState::stages}, Key{"replica", &HeldState::replica});
}

/// A survivor's report of itself.
struct Report {
  int rank = -1;                  ///< in the group that worked before; -1: it waited, or is new
  std::optional<HeldState> live;  ///< of a rank that worked
  bool joined = false;            ///< it was spawned for this recovery
  bool prepared = false;          ///< it has the gradients of the next step, and lacks only the decision
  std::vector<HeldState> snapshots = {};
  std::optional<Position> file = {};  ///< position of the last checkpoint file, if it knows the rest of that
                                      ///< state
  std::int64_t reached = 0;           ///< steps that it had completed when it noticed
  double noticed = 0;                 ///< when it noticed, seconds of its machine's monotonic clock
  /// How often this recovery has begun, as far as it knows. It begins again when another rank fails in it.
  int attempts = 0;
  bool asks = false;     ///< it was between two steps, and asks for the ranks that the run has lost
  bool refused = false;  ///< MPI could not start a process in this recovery
};
constexpr auto keys_of(std::type_identity<Report>) {
  using record::Key;
  return std::tuple(Key{"rank", &Report::rank}, Key{"live", &Report::live}, Key{"joined", &Report::joined},
                    Key{"prepared", &Report::prepared}, Key{"snapshots", &Report::snapshots},
                    Key{"file", &Report::file}, Key{"reached", &Report::reached},
                    Key{"noticed", &Report::noticed}, Key{"attempts", &Report::attempts},
                    Key{"asks", &Report::asks}, Key{"refused", &Report::refused});
}

/// The decision, the same on all survivors.
struct RecoveryPlan {
  std::string refusal = {};                       ///< why the run cannot continue; then nothing else counts
  int missing = 0;                                ///< processes that must be spawned before there is a plan
  std::vector<int> workers = {};                  ///< reports of the working ranks, in their new order
  ReplicaMap map = ReplicaMap(1, 1);              ///< of their work
  std::optional<record::MeshSpec> mesh = {};      ///< their chips, by rank
  std::optional<record::StateSource> state = {};  ///< absent: nothing was lost
  bool interrupted = true;                        ///< a step, or another part of the run, has to be repeated
  bool expands = false;                           ///< as many ranks work as when the run began
  bool rolls_back = false;                        ///< all ranks go back to a snapshot or a file
  Position target = {};                           ///< position from which all continue
  int leader = 0;                                 ///< report of a rank that knows everything about the run
                                                  ///< except the tensors
  std::vector<int> donors = {};                   ///< by stage of the old cut: report of the rank that has
                                                  ///< its state
  std::vector<int> givers = {};        ///< by new rank: report of the rank that gives its state, itself if it
                                       ///< has that; empty if the model is cut again, or with a file
  std::vector<int> failed = {};        ///< ranks that were lost, ascending
  std::vector<int> failed_seats = {};  ///< the work that they did: ranks as the run began
};

/// A recovery that begins more often than this is refused: each replacement may fail for the same reason,
/// such as too little memory.
inline constexpr int most_recovery_attempts = 10;
/// A run that does not get new processes in so many attempts continues without them.
inline constexpr int most_attempts_to_expand = 3;

/// before, mesh: of the group that worked; reports: of all living ranks, by rank; stages: as the run began,
/// 0: as in `before`. The chip of a rank that is not replaced is dead from then on; another process that
/// takes a rank's place works on its chip. The run expands if all ranks that worked ask for it.
[[nodiscard]] RecoveryPlan plan_recovery(const record::RecoverySpec& spec, const ReplicaMap& before,
                                         const std::vector<Report>& reports,
                                         const std::optional<record::MeshSpec>& mesh = {}, int stages = 0);

}  // namespace bitrift::train
