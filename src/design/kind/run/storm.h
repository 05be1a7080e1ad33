// Storms: ranks that fail again and again in one run (docs/spec.md, "Storms").
#pragma once

#include <cstdint>
#include <vector>

#include "design/kind/kind.h"
#include "design/kind/run/steps.h"
#include "record/fault/kill_points.h"

namespace bitrift::design {

/// Runs in which ranks fail again and again.
struct Storm {
  std::int64_t every = 1;  ///< mean steps between two failures
  StepRange steps;         ///< in which ranks fail
  std::vector<record::TrainingPhase> phases;
  std::vector<record::FailureMode> how;
  record::Slowness slowness = {};  ///< of mode slow
};

/// In each step a rank fails with probability 1 / every, independently of the other steps: the discrete
/// counterpart of a Poisson process. The number of steps from one failure to the next is geometric, with mean
/// `every`. The rank, then the phase, the point and the way to fail are uniform. Each draw is one such run;
/// what strikes in a step follows from the stratum's key, the draw and the step alone.
class StormPopulation final : public Population {
 public:
  /// Throws Error(bad_input) when a phase has no point on some rank.
  StormPopulation(Storm storm, const record::KillPoints& points, const record::Parallel& parallel);

  [[nodiscard]] std::uint64_t size() const override { return record::unbounded_stratum; }
  /// One fault a step at most, by step. No altered bit if no rank fails in the run.
  [[nodiscard]] record::Faults draw(std::uint64_t key, std::uint64_t number, std::size_t) const override;

 private:
  Storm storm_;
  std::vector<std::vector<std::uint64_t>> points_;  // by rank and phase
};

}  // namespace bitrift::design
