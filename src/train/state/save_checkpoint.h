// A session to a checkpoint file (docs/checkpoint-format.md). Inside train/ only.
#pragma once

#include <filesystem>

#include "spec/training_spec.h"
#include "train/parallel/rank_layout.h"
#include "train/state/session.h"
#include "train/step/kill_point.h"

namespace bitrift::train {

/// Writes the state of all ranks as one file; rank 0 writes, the others send it one tensor after the other,
/// so no rank holds more than its part and one tensor. Replica 0 is stored as the state; of other replicas,
/// what differs from it. The same state gives the same bytes under every strategy. Collective; throws
/// mpi::AgreedError on all ranks.
void save_session(const std::filesystem::path& path, Session& session, const record::TrainingSpec& spec,
                  const Layout& layout, KillPoint& kill_point);

}  // namespace bitrift::train
