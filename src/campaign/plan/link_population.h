// The population of a kind of failure of links: which link, from which step on.
#pragma once

#include <cstdint>
#include <vector>

#include "record/fault/link_strata.h"
#include "record/stratum_name.h"
#include "spec/mesh_spec.h"

namespace bitrift::campaign {

/// Live links of the mesh x steps.
class LinkPopulation {
 public:
  /// Throws Error(bad_input) when strata.steps_per_epoch is not known, a step is beyond the end of a run, or
  /// the mesh has no live link.
  LinkPopulation(record::LinkFailure kind, const record::LinkStrata& strata, const record::MeshSpec& mesh,
                 std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const noexcept { return links_.size() * steps_; }
  /// Member `index` of 0 .. size()-1; a bijection.
  [[nodiscard]] record::FailedLink at(std::uint64_t index) const;

 private:
  double delay_;
  std::int64_t first_step_ = 1;
  std::uint64_t steps_ = 0;
  std::vector<record::FailedLink> links_;  // ascending
};

/// How many steps a run takes. Throws Error(bad_input) when strata.steps_per_epoch is not known.
[[nodiscard]] std::int64_t steps_of_run(const record::LinkStrata& strata, std::int64_t epochs);

/// What a canary in which a link fails does: the first live link is slow, from the middle of the run on or
/// from behind its end.
[[nodiscard]] record::FailedLink canary_link(record::FailedLinkCanary canary,
                                             const record::LinkStrata& strata, const record::MeshSpec& mesh,
                                             std::int64_t epochs);

}  // namespace bitrift::campaign
