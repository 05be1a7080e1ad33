// How many points each phase of a training has in which a rank may fail.
#pragma once

#include <filesystem>

#include "campaign/folder/folder.h"
#include "spec/campaign_spec.h"

namespace bitrift::campaign {

/// Fills in strata.process.points of a campaign in which ranks fail: those of the folder where its campaign
/// has the same bases and strategy, else what `bitrift-train describe` says. Does nothing for others. source:
/// of the spec, for messages; trainer: see find_trainer(). Throws Error(bad_input) when the strata do not fit
/// the points or bases differ in them, Error(unsupported) when bitrift-train does not know kill points.
void find_kill_points(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                      const std::filesystem::path& trainer);

}  // namespace bitrift::campaign
