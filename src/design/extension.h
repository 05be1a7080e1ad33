// A campaign that grows: what may be added to its spec while its rows stay valid (docs/campaign.md,
// "Extending").
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "design/campaign_spec.h"

namespace bitrift::design {

/// Why a campaign of the spec `before` cannot become one of `after`: "seed was 1, is now 2", or a sentence
/// about its rounds. nullopt when `after` only adds draws, strata or arms, or is the same.
[[nodiscard]] std::optional<std::string> extension_problem(const CampaignSpec& before,
                                                           const CampaignSpec& after);

/// How many specs a campaign has had; the last one is current.
[[nodiscard]] inline std::size_t generations(const CampaignSpec& spec) { return spec.earlier.size() + 1; }
/// The spec of a generation, counted from 0.
[[nodiscard]] inline const CampaignSpec& generation(const CampaignSpec& spec, std::size_t number) {
  return number < spec.earlier.size() ? spec.earlier[number] : spec;
}

}  // namespace bitrift::design
