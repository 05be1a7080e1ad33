// The strata and rounds of a campaign, in the order in which draws are evaluated.
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
  std::vector<std::uint64_t> bits;  ///< their sizes; 0: unknown to both rounds and rows
  std::vector<PickedRound> rounds;
  double aim = 0;  ///< the half-width that totals are to reach; 0: none
  /// Throws Error(conflict) when the campaign does not have this stratum.
  [[nodiscard]] std::size_t position(const std::string& stratum) const;
};

/// rounds: as published. A spec without `sampling` needs no rounds: it has one round, known before it runs,
/// and the sizes are then those of the rows. Throws Error(bad_input) on missing rounds, Error(conflict) on a
/// row of a stratum that the campaign does not have.
[[nodiscard]] Order order_of(const design::CampaignSpec& spec, const std::vector<record::Round>& rounds,
                             const Observations& seen);

/// The weight in the estimate of a total of each round that draws something (docs/statistics.md,
/// "Estimates"). The weight of a round depends only on what was known when it was planned, and the weights
/// add up to 1 or, where a campaign stopped earlier than forecast, to a little less: so stopping by the data
/// leaves the estimate unbiased. The rounds of an extension add their information to this sum, in relation to
/// the rounds before. All 0 where the draws were not chosen by `sampling.target` totals.
[[nodiscard]] std::vector<double> round_weights(const design::CampaignSpec& campaign,
                                                const std::vector<record::Round>& rounds);

}  // namespace bitrift::analyze
