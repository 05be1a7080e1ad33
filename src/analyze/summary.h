// From rows to rates: what the table shows, summary.json holds and the gate compares.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyze/interval.h"
#include "record/campaign_spec.h"
#include "record/json.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// Rate of one outcome class in a group of strata. estimate = sum_h w_h k_h / n_h with w_h the stratum's share of the
/// group's bits, so it is the rate over uniformly drawn bits of the group.
struct Rate {
  double estimate = 0;
  Interval fixed;    ///< Wilson (for several strata: with the effective n of the stratified estimate; approximate)
  Interval anytime;  ///< anytime_finite per stratum at alpha / H, weighted and summed (Bonferroni; conservative)
};

/// A line of the table.
struct Group {
  std::map<std::string, std::string> key;  ///< e.g. {"arm":"serial","field":"exponent"}; dimensions as in `by`
  std::uint64_t trials = 0;
  std::uint64_t bits = 0;  ///< population
  std::map<record::OutcomeClass, std::uint64_t> counts;
  std::map<record::Reason, std::uint64_t> reasons;
  std::map<record::OutcomeClass, Rate> rates;
};

struct Summary {
  std::vector<std::string> by;
  std::vector<Group> groups;      ///< sorted by key
  std::uint64_t trials = 0;
  std::uint64_t failed_canaries = 0;
};

/// Groups the `trial` rows. by: any of strategy (= arm), role, field, stratum. Canaries, controls and envelope runs never count.
/// Throws Error(conflict) when controls are missing, and Error(bad_input) on an unknown dimension.
[[nodiscard]] Summary summarize(const std::vector<record::TrialRecord>& rows, const record::CampaignSpec& spec,
                                const std::vector<std::string>& by);
/// Plain text, columns aligned, at most 100 wide: group, n, masked/SDC/crash % with anytime interval, main reasons.
[[nodiscard]] std::string table(const Summary& summary);
[[nodiscard]] record::Json to_json(const Summary& summary);

}  // namespace bitrift::analyze
