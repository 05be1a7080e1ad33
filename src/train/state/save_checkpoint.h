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

using record::SaveWriter;

struct SaveRequest {
  std::filesystem::path path;
  SaveMode mode = SaveMode::sync;
  SaveWriter writer = SaveWriter::gather;
  std::function<void()> saved = [] {};  ///< called on rank 0 when the file is there; may throw Error
  ckpt::WriteFormat format = ckpt::WriteFormat::hdf5;
};

/// Writes the state of all ranks as one file. Replica 0 is stored as the state; of other replicas, what
/// differs from it. The same state gives the same bytes under every strategy, in every mode and with every
/// writer. gather: rank 0 holds its part and one tensor of another rank. shared: replicas that are alike
/// share the work; mode is sync, and a format that is_compressed() is gathered. Collective; throws
/// mpi::AgreedError on all ranks, also where an earlier save in the background failed. behind: rank 0's
/// writes; the others' keeps what does not change between saves.
void save_session(const SaveRequest& request, BackgroundSave& behind, Session& session,
                  const record::TrainingSpec& spec, const Layout& layout, KillPoint& kill_point);

}  // namespace bitrift::train
