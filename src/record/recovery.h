// How a run recovers from a rank that failed: the request, and what happened (docs/rank-failure.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/fault/death_note.h"
#include "record/json/keys.h"

namespace bitrift::record {

enum class RecoveryKind {
  none,      ///< the run ends
  shrink,    ///< the survivors take over the dead rank's work
  spare,     ///< an idle rank takes the dead rank's place
  respawn,   ///< a new process takes it
  restart,   ///< every survivor unwinds to its starting point and reloads a snapshot, as Reinit does
  relaunch,  ///< the job ends and starts again from the last checkpoint file
};
constexpr EnumNames<6> names_of(RecoveryKind) {
  return {"recovery", {"none", "shrink", "spare", "respawn", "restart", "relaunch"}};
}

/// The source of a dead rank's state.
enum class StateSource {
  replica,  ///< a live rank that holds the same stage
  buddy,    ///< a live rank that keeps a copy of the last snapshot
  file,     ///< the last checkpoint file
};
constexpr EnumNames<3> names_of(StateSource) { return {"source of state", {"replica", "buddy", "file"}}; }

/// The batch of a data-parallel run that continues with fewer ranks.
enum class BatchRule {
  same,     ///< survivors also compute the dead replica's part: the result does not change
  smaller,  ///< the dead replica's part is dropped, and the mean is taken over the rest
};
constexpr EnumNames<2> names_of(BatchRule) { return {"batch after a failure", {"same", "smaller"}}; }

/// A part of a run's state that a recovery may leave out, to show whether it is needed.
enum class Structure {
  parameters,
  optimizer,   ///< momentum, moments, step counts
  buffers,     ///< running statistics of batch norm
  loss_scale,  ///< scale and growth tracker
  schedule,    ///< learning rate and the state of the schedule
  rng,         ///< the data-order seed, which also determines dropout and augmentation
  cursor,      ///< epoch, step and position in the epoch
};
constexpr EnumNames<7> names_of(Structure) {
  return {"structure of the state",
          {"parameters", "optimizer", "buffers", "loss_scale", "schedule", "rng", "cursor"}};
}

/// How a run is to continue when a rank fails.
struct RecoverySpec {
  RecoveryKind kind = RecoveryKind::none;
  std::optional<StateSource> state = {};  ///< absent: a replica if one is alive, else buddy, else file
  int spares = 0;                         ///< idle ranks in addition to those that work; spare and restart
  std::int64_t snapshot_every = 0;        ///< steps between two snapshots for buddy and restart; 0: none
  std::int64_t checkpoint_every = 0;      ///< steps between two checkpoint files; 0: none
  BatchRule batch = BatchRule::same;      ///< shrink
  /// shrink: steps after a failure until new processes take the places of the lost ranks; 0: never.
  std::int64_t expand_after = 0;
  std::vector<Structure> forget = {};  ///< state that a replacement or a rolled-back rank does not get
                                       ///< back
  /// Survivors add gradients in another order, like those that shrink on a mesh. Follows from the run's
  /// strategy, and is not part of the JSON form.
  bool reorders_sums = false;
  bool operator==(const RecoverySpec&) const = default;
  /// Whether a run that recovered must end in the state of one in which no rank failed, bit for bit.
  [[nodiscard]] bool promises_golden() const noexcept {
    return kind != RecoveryKind::none && batch == BatchRule::same && forget.empty() && !reorders_sums;
  }
  /// Whether ranks stay in the job after a failure, so that MPI must be able to continue without the dead
  /// one.
  [[nodiscard]] bool in_place() const noexcept {
    return kind != RecoveryKind::none && kind != RecoveryKind::relaunch;
  }
};
constexpr auto keys_of(std::type_identity<RecoverySpec>) {
  using enum Presence;
  return std::tuple(Key{"kind", &RecoverySpec::kind}, Key{"state", &RecoverySpec::state},
                    Key{"spares", &RecoverySpec::spares, unless_default},
                    Key{"snapshot_every", &RecoverySpec::snapshot_every, unless_default},
                    Key{"checkpoint_every", &RecoverySpec::checkpoint_every, unless_default},
                    Key{"batch", &RecoverySpec::batch, unless_default},
                    Key{"expand_after", &RecoverySpec::expand_after, unless_default},
                    Key{"forget", &RecoverySpec::forget, unless_default});
}

/// Seconds. Times of rank 0 of the group that continues, unless said otherwise.
struct RecoveryTimes {
  std::optional<double> detect = {};  ///< from the failure until the first rank noticed; absent when unknown
  double revoke = 0;                  ///< until no call of the old group is in progress
  double agree = 0;                   ///< until all survivors know who is left and how far each rank is
  double shrink = 0;                  ///< until the new groups exist
  double respawn = 0;                 ///< until replacements have started and joined
  double state = 0;                   ///< until every rank holds the state to continue from
  double redo = 0;  ///< until the next step is done that is further than any before the failure
  [[nodiscard]] double total() const noexcept {
    return detect.value_or(0) + revoke + agree + shrink + respawn + state + redo;
  }
  bool operator==(const RecoveryTimes&) const = default;
};
constexpr auto keys_of(std::type_identity<RecoveryTimes>) {
  using enum Presence;
  return std::tuple(
      Key{"detect", &RecoveryTimes::detect}, Key{"revoke", &RecoveryTimes::revoke, defaulted},
      Key{"agree", &RecoveryTimes::agree, defaulted}, Key{"shrink", &RecoveryTimes::shrink, defaulted},
      Key{"respawn", &RecoveryTimes::respawn, defaulted}, Key{"state", &RecoveryTimes::state, defaulted},
      Key{"redo", &RecoveryTimes::redo, defaulted});
}

/// One recovery of a run.
struct Recovery {
  RecoveryKind kind = RecoveryKind::none;
  std::optional<StateSource> state = {};  ///< absent: no state was lost (a spare died, or only a step was
                                          ///< lost)
  std::vector<int> failed;                ///< ranks, as the run began, whose work was lost, ascending; empty
                                          ///< where the run only expands, or was launched again and no rank
                                          ///< left a note
  int ranks_before = 0, ranks_after = 0;  ///< that worked
  std::int64_t step = 0;                  ///< steps of this run after the state from which it continued
  std::int64_t steps_lost = 0;            ///< updates that were undone
  std::int64_t steps_redone = 0;          ///< steps that were computed again, the interrupted one included
  std::uint64_t bytes_moved = 0;          ///< of state, between ranks and from files
  RecoveryTimes times = {};               ///< volatile
};
constexpr auto keys_of(std::type_identity<Recovery>) {
  return std::tuple(Key{"kind", &Recovery::kind}, Key{"state", &Recovery::state},
                    Key{"failed", &Recovery::failed}, Key{"ranks_before", &Recovery::ranks_before},
                    Key{"ranks_after", &Recovery::ranks_after}, Key{"step", &Recovery::step},
                    Key{"steps_lost", &Recovery::steps_lost}, Key{"steps_redone", &Recovery::steps_redone},
                    Key{"bytes_moved", &Recovery::bytes_moved},
                    Key{"volatile", &Recovery::times, Presence::defaulted});
}

/// How many recoveries there have been since the run last reached a new step, the one at that step included.
/// The number keeps growing if the same error recurs in every try.
[[nodiscard]] int recoveries_without_progress(const std::vector<Recovery>& recoveries) noexcept;

/// The facts that a job needs when it is launched again after losing ranks.
struct Relaunch {
  std::string checkpoint = {};  ///< the last file that the job wrote; "": none, so the run starts again
  std::string ledgers = {};     ///< folder of what the job knew in addition to its checkpoints; "": not kept
  std::int64_t step = 0;        ///< step of the run in which the ranks failed (see ProcessFault); 0: unknown
  TrainingPhase phase = TrainingPhase::forward;  ///< phase in which they failed
  /// The recoveries that the ledger of the checkpoint lacks. The last one has no steps yet, and no times of
  /// state and redo.
  std::vector<Recovery> recoveries = {};

  /// The last recovery of a run that continues from the state after this many of its steps.
  [[nodiscard]] Recovery continued_behind(std::int64_t steps) const;
};
constexpr auto keys_of(std::type_identity<Relaunch>) {
  return std::tuple(Key{"checkpoint", &Relaunch::checkpoint}, Key{"ledgers", &Relaunch::ledgers},
                    Key{"step", &Relaunch::step}, Key{"phase", &Relaunch::phase},
                    Key{"recoveries", &Relaunch::recoveries});
}

/// Describes the relaunch of a job with this number of ranks. deaths: the notes that its ranks left; empty if
/// they left none. noticed: monotonic_seconds() when the end of the job was noticed.
[[nodiscard]] Relaunch relaunch_after(const std::vector<DeathNote>& deaths, int ranks, double noticed);

/// With or without the object "volatile".
[[nodiscard]] Json to_json(const Recovery& recovery, Times times);

}  // namespace bitrift::record
