// A session to a checkpoint file (docs/checkpoint-format.md). Inside train/ only.
#pragma once

#include <filesystem>
#include <functional>

#include "spec/training_spec.h"
#include "train/fault/kill_point.h"
#include "train/parallel/rank_layout.h"
#include "train/state/background_save.h"
#include "train/state/session.h"

namespace bitrift::train {

using record::SaveWriter;

struct SaveRequest {
  std::filesystem::path path;
  SaveMode mode = SaveMode::sync;
  SaveWriter writer = SaveWriter::gather;
  std::function<void()> saved = [] {};  ///< called on rank 0 when the file is there; may throw Error
  ckpt::WriteFormat format = ckpt::WriteFormat::hdf5;
};

/// BackgroundSave::prepare() for files of this state, if all replicas have the same. On rank 0; the save
/// reports an error. Local.
void prepare_saves(ckpt::WriteFormat format, BackgroundSave& behind, const Session& session,
                   const record::TrainingSpec& spec);

/// Writes the state of all ranks as one file: the state of replica 0, and whatever differs from it in other
/// replicas. The same state gives the same bytes under every strategy, in every mode and with every writer.
/// With gather and direct, rank 0 needs memory for one tensor of another rank. With shared, identical
/// replicas divide the work; the mode must be sync, and a format that is_compressed() is gathered.
/// Collective; throws mpi::AgreedError on all ranks, also if an earlier save in the background failed.
/// behind: each rank has one for all its saves.
void save_session(const SaveRequest& request, BackgroundSave& behind, Session& session,
                  const record::TrainingSpec& spec, const Layout& layout, KillPoint& kill_point);

}  // namespace bitrift::train
