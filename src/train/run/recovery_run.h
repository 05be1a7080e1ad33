// The handling of a failure: from the first error to a group that works again. Inside train/ only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "record/recovery.h"
#include "train/recover/position.h"
#include "train/recover/recovery_plan.h"
#include "train/recover/run_ledger.h"
#include "train/recover/snapshots.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// What this rank was doing when it noticed.
struct Interrupted {
  std::optional<Ledger> ledger = {};           ///< of a rank that worked
  std::optional<Position> file_position = {};  ///< of the last checkpoint file, and the ledger of that moment
  std::string file_ledger = {};
  std::uint64_t order = 0;  ///< of the golden run that the run may meet
  std::filesystem::path death_note;
  std::vector<std::string> command = {};  ///< that starts another process of this program
  /// No rank has failed: all ranks that work are between two steps, and ask for those that the run has lost.
  bool asks = false;
};

/// The result of the recovery.
struct Recovered {
  std::string refusal = {};  ///< why the run cannot continue; then nothing below counts
  bool works = false;        ///< this rank works from here on
  Ledger ledger = {};        ///< ledger of the run from here on
  record::Recovery record = {};
};

/// Revokes, counts the living ranks, decides, moves state, until all have what they need. Collective over all
/// living ranks, whether they worked, waited or just joined. If a rank dies during it, it begins again. The
/// session then is at the ledger's position. Throws only errors other than a rank's death.
[[nodiscard]] Recovered recover(TrainerState& state, Snapshots& snapshots, const Interrupted& interrupted);

}  // namespace bitrift::train
