// Which rank contributes which tensor to a checkpoint. Inside train/ only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "spec/training_spec.h"
#include "train/parallel/rank_layout.h"
#include "train/state/session.h"

namespace bitrift::train {

/// The contents of a file, and which rank contributes them. Equal on all ranks.
struct SavePlan {
  std::vector<ckpt::TensorMeta> metas;            ///< sorted by path
  std::vector<int> owners;                        ///< of metas
  std::map<std::string, std::string> attributes;  ///< of the root group
};

/// The tensors that this rank contributes, with their paths in the file, sorted by path. If all replicas are
/// identical, the ranks of replica 0 contribute everything or, with `spread`, all ranks about the same number
/// of bytes. Otherwise replica 0 contributes its whole state, and every other replica the tensors that differ
/// from it. Sharded optimizer state comes from the rank that holds it. Collective over the replicas of a
/// stage.
[[nodiscard]] std::vector<StateTensor> contribution(Session& session, const Layout& layout, bool spread);

/// The contents of the root group where the replicas are identical.
[[nodiscard]] std::map<std::string, std::string> plan_attributes(const record::TrainingSpec& spec);

/// Collective over the world. mine: as returned by contribution().
[[nodiscard]] SavePlan plan_save(const std::vector<StateTensor>& mine, Session& session,
                                 const record::TrainingSpec& spec, const Layout& layout);

}  // namespace bitrift::train
