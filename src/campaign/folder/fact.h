// What must be known about a training before faults can be drawn.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "campaign/folder/folder.h"
#include "campaign/launch/launch.h"
#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// Gives the strata their fact, where they need one: that of the folder, if its campaign has the same kind of
/// fault, bases and strategy; else what `bitrift-train describe` says, or what the user's script shows when
/// it trains an epoch. source: of the spec, for messages; say: called before the script is run. Throws
/// Error(bad_input) when the strata do not fit the fact, or bases or arms differ in it, Error(unsupported)
/// when bitrift-train does not say it.
void find_fact(design::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
               const Launch& launch, const std::function<void(std::string)>& say);

}  // namespace bitrift::campaign
