// A session to a checkpoint file (docs/checkpoint-format.md). Inside train/ only.
#pragma once

#include <filesystem>
#include <functional>

#include "spec/training_spec.h"
#include "train/parallel/rank_layout.h"
#include "train/state/background_save.h"
#include "train/state/session.h"
#include "train/step/kill_point.h"

namespace bitrift::train {

struct SaveRequest {
  std::filesystem::path path;
  SaveMode mode = SaveMode::sync;
  std::function<void()> saved = [] {};  ///< called on rank 0 when the file is there; may throw Error
};

/// Writes the state of all ranks as one file; rank 0 writes, the others send it one tensor after the other,
/// so no rank holds more than its part and one tensor. Replica 0 is stored as the state; of other replicas,
/// what differs from it. The same state gives the same bytes under every strategy and in every mode.
/// Collective; throws mpi::AgreedError on all ranks, also where an earlier save in the background failed.
/// behind: rank 0's is used.
void save_session(const SaveRequest& request, BackgroundSave& behind, Session& session,
                  const record::TrainingSpec& spec, const Layout& layout, KillPoint& kill_point);

}  // namespace bitrift::train
