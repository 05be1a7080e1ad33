// What bitrift-train must say about a training before the faults of a campaign are known.
#pragma once

#include <filesystem>

#include "campaign/folder/folder.h"
#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// Gives the strata their fact, where they need one: that of the folder where its campaign has the same kind
/// of fault, bases and strategy, else what `bitrift-train describe` says. source: of the spec, for messages;
/// trainer: see find_trainer(). Throws Error(bad_input) when the strata do not fit the fact or bases differ
/// in it, Error(unsupported) when bitrift-train does not say it.
void find_fact(design::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
               const std::filesystem::path& trainer);

}  // namespace bitrift::campaign
