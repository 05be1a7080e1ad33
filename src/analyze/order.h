// The strata and rounds of a campaign, in the order in which draws are looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/observations.h"
#include "analyze/rates/picks.h"
#include "design/campaign_spec.h"
#include "record/round.h"

namespace bitrift::analyze {

struct Order {
  std::vector<std::string> names;   ///< of all strata of the campaign
  std::vector<std::uint64_t> bits;  ///< their sizes; 0: neither a round nor a row says it
  std::vector<PickedRound> rounds;
  double aim = 0;  ///< half-width that totals shall reach; 0: none
  /// Throws Error(conflict) when the campaign does not have this stratum.
  [[nodiscard]] std::size_t position(const std::string& stratum) const;
};

/// rounds: as published. A spec without `sampling` can do without: it has one round, known before it runs,
/// and the sizes are then those of the rows. Throws Error(bad_input) on missing rounds, Error(conflict) on a
/// row of a stratum that the campaign does not have.
[[nodiscard]] Order order_of(const design::CampaignSpec& spec, const std::vector<record::Round>& rounds,
                             const Observations& seen);

/// What each round that draws something counts in the estimate of a total (docs/statistics.md, "Estimates").
/// The weight of a round depends on nothing but what was known when it was planned, and the weights add up to
/// 1 or, where a campaign stopped earlier than forecast, to a little less: so stopping by the data leaves the
/// estimate unbiased. The rounds of an extension add to this sum what they bring, in relation to the rounds
/// before. All 0 where the draws were not chosen by `sampling.target` totals.
[[nodiscard]] std::vector<double> round_weights(const design::CampaignSpec& campaign,
                                                const std::vector<record::Round>& rounds);

}  // namespace bitrift::analyze
