// The contents of a campaign's strata, counted in its base checkpoints.
#pragma once

#include <map>
#include <string>

#include "analyze/base_contents.h"
#include "campaign/folder/folder.h"

namespace bitrift::campaign {

/// The contents of every base of a campaign; empty where the strata are fault models. Throws Error(not_found)
/// when a base is missing, Error(conflict) when it is not the one that the campaign began with, else as
/// ckpt::Reader and Plan do.
[[nodiscard]] analyze::Contents read_contents(const Layout& layout, const StoredCampaign& campaign);

/// The layer of every tensor that belongs to one, by path, over all bases that exist.
[[nodiscard]] std::map<std::string, std::string> layers_of_tensors(const Layout& layout,
                                                                   const design::CampaignSpec& spec);

}  // namespace bitrift::campaign
