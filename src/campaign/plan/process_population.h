// The population of a phase in which ranks fail: who, in which step, at which point.
#pragma once

#include <cstdint>
#include <vector>

#include "record/fault/process_strata.h"
#include "record/stratum_name.h"
#include "spec/campaign_spec.h"

namespace bitrift::campaign {

/// All sets of `together` ranks x steps x points of the phase. Ranks of other stages have other numbers of
/// points: a set has as many as the rank with the most, and the others fail at their last (ProcessFault).
/// Ranks without a point in the phase are in no set.
///
/// Of phase recovery: all ordered pairs of ranks x steps x the parts of a recovery. The first rank fails in
/// phase reduce, the second while that failure is handled. Of phase evaluate: the steps are those behind
/// which an evaluation comes, one an epoch.
class ProcessPopulation {
 public:
  /// Throws Error(bad_input) when strata.points is not known or of other stages, a step is beyond the end of
  /// a run, no rank has a point in the phase, or there are more than 2^47 members.
  ProcessPopulation(record::TrainingPhase phase, const record::ProcessStrata& strata,
                    const record::Parallel& parallel, std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const noexcept { return places_ * steps_; }
  /// Member `index` of 0 .. size()-1, ranks ascending; a bijection.
  [[nodiscard]] std::vector<record::ProcessFault> at(std::uint64_t index) const;

 private:
  struct Victim {
    int rank;
    std::uint64_t points;
  };
  void find_victims(const record::ProcessStrata& strata, const record::Parallel& parallel);
  [[nodiscard]] std::vector<record::ProcessFault> pair_at(std::uint64_t place, std::int64_t step) const;

  record::TrainingPhase phase_;
  record::Ending how_;
  int together_;
  std::uint64_t steps_ = 0;                   // how many
  std::int64_t first_step_ = 1, stride_ = 1;  // step i is first_step_ + i x stride_
  std::vector<Victim> victims_;               // the one with the fewest points first
  // How many (set, point) have a last victim before this one; a set's last victim has the most points.
  std::vector<std::uint64_t> before_;
  std::uint64_t places_ = 0;  // (set, point), without the step
};

/// How many steps a run takes. Throws Error(bad_input) when strata.points is not known.
[[nodiscard]] std::int64_t steps_of_run(const record::ProcessStrata& strata, std::int64_t epochs);

/// What a canary in which ranks fail does to a run of this arm.
[[nodiscard]] std::vector<record::ProcessFault> canary_faults(record::ProcessCanary canary,
                                                              const record::CampaignSpec& spec,
                                                              const record::Arm& arm);

}  // namespace bitrift::campaign
