// The golden run that accompanies a run: kept step by step, or met and followed. Inside train/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "record/run.h"
#include "train/golden/trajectory.h"
#include "train/recover/run_ledger.h"
#include "train/run/run_options.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// Training metrics of the current epoch; none when this run took no step.
[[nodiscard]] record::Evaluation training_metrics(TrainerState& state, std::int64_t steps);

class GoldenPath {
 public:
  /// keeps: this run is the golden one.
  GoldenPath(TrainerState& state, bool keeps) : state_(state), keeps_(keeps) {}

  /// Called after the `steps`-th step of the run; may be called again for the same. Local.
  void mark(const StepMade& last, std::int64_t steps);
  /// Whether all ranks have the state that the golden run had after as many steps. Collective. Sets when
  /// `run` is compared next.
  [[nodiscard]] bool meets(RunProgress& run, const Terms& terms);
  /// From here on the run would repeat the golden run, whose rest becomes the result's. Local.
  void follow(const StepMade& last, record::RunResult& result);
  /// At the end of a golden run. Collective if the team may lose members.
  void keep(const record::RunResult& result, std::uint64_t order);

 private:
  TrainerState& state_;
  bool keeps_;
  std::uint64_t order_ = 0;  // data order of the run that was met
  std::vector<Trajectory::Mark> marks_;
};

}  // namespace bitrift::train
