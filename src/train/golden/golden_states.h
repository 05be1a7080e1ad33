// The golden run's states in memory, and how far another run strays from them. Inside train/ only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "record/propagation_report.h"
#include "train/state/session.h"

namespace bitrift::train {

/// This rank's tensors after chosen steps of the golden run.
class GoldenStates {
 public:
  /// Forgets all states. optimizer: whether later ones hold optimizer/ in addition to model/.
  void clear(bool optimizer);
  void keep(std::int64_t step, Session& session);
  /// The tensors that differ from those kept after this step, by path. An optimizer tensor that only one of
  /// the two has counts as zeros in the other. Throws Error(internal) when that step was not kept.
  [[nodiscard]] record::StepDrift compare(std::int64_t step, Session& session) const;

 private:
  struct Kept {
    ckpt::TensorMeta meta;
    std::string bytes;
  };
  [[nodiscard]] std::vector<StateTensor> chosen(Session& session) const;

  std::map<std::int64_t, std::map<std::string, Kept>> states_;  // step, then path
  bool optimizer_ = false;
};

}  // namespace bitrift::train
