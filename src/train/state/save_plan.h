// Which rank gives which tensor to a checkpoint. Inside train/ only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "spec/training_spec.h"
#include "train/parallel/rank_layout.h"
#include "train/state/session.h"

namespace bitrift::train {

/// What a file holds, and which rank of the world gives it. Equal on all ranks.
struct SavePlan {
  std::vector<ckpt::TensorMeta> metas;            ///< sorted by path
  std::vector<int> owners;                        ///< of metas
  std::map<std::string, std::string> attributes;  ///< of the root group
};

/// What this rank gives to the file, by path there, sorted. Of replicas that are alike, replica 0's ranks
/// give all; where `spread`, every rank gives about the same number of bytes. Of replicas that differ,
/// replica 0 gives its state, and each other one what differs from it. Collective over the replicas of a
/// stage.
[[nodiscard]] std::vector<StateTensor> contribution(Session& session, const Layout& layout, bool spread);

/// Collective over the world. mine: what contribution() gave.
[[nodiscard]] SavePlan plan_save(const std::vector<StateTensor>& mine, Session& session,
                                 const record::TrainingSpec& spec, const Layout& layout);

}  // namespace bitrift::train
