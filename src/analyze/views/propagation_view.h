// From rows to how far faults reached: which tensors they altered, after how many steps, by how much.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// One tensor after a step, over the trials of an arm and stratum. A trial's value is that of its worst
/// replica. NaN counts as infinite.
struct Reach {
  std::string tensor;
  std::uint64_t trials = 0;     ///< in which it differed from the golden run's
  std::uint64_t nonfinite = 0;  ///< of those: in which it held a NaN or an infinity
  double median_norm = 0;       ///< over those trials: of ||a2 - a1|| / ||a1||
  double max_norm = 0;
  double median_mean = 0;   ///< over those trials: of the mean of |a2 - a1| / |a1|
  double mean_altered = 0;  ///< over those trials: mean share of altered elements
};

/// The trials of one arm and stratum after a step.
struct ReachGroup {
  std::string arm, stratum;
  std::string
      origin;  ///< with Propagation::by_origin: the tensor in which faults were planted; of several: how many
  std::int64_t step = 0;
  std::uint64_t trials = 0;    ///< that recorded and reached the step
  std::uint64_t ended = 0;     ///< that recorded and ended before it, or gave no result
  std::uint64_t equal = 0;     ///< of those that reached it: where no tensor differed
  std::vector<Reach> tensors;  ///< that differed in some trial, in natural order of their paths
};

struct Propagation {
  std::string campaign;
  record::PropagationSpec asked;
  bool by_origin = false;
  std::vector<ReachGroup> groups;  ///< by arm, stratum, origin, step
  std::uint64_t waiting = 0;       ///< rows after a draw without a row yet; they do not count
};

/// rows: all of the journal; as for rates, only rows without a gap before them count. Throws
/// Error(bad_input) when the campaign records no propagation.
[[nodiscard]] Propagation propagation_of(const std::vector<record::TrialRecord>& rows,
                                         const design::CampaignSpec& spec, bool by_origin);
/// Plain text, a block for each group.
[[nodiscard]] std::string table(const Propagation& propagation);
/// Schema "bitrift/propagation/1" (docs/propagation.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const Propagation& propagation);

}  // namespace bitrift::analyze
