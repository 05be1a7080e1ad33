// Which messages a training on a mesh sends, and in how many steps.
#pragma once

#include <filesystem>

#include "campaign/folder/folder.h"
#include "spec/campaign_spec.h"

namespace bitrift::campaign {

/// Fills in strata.wire.messages of a campaign whose links alter messages, and strata.link.steps_per_epoch of
/// one whose links fail, as find_kill_points() does points.
/// Throws Error(bad_input) when the strata do not fit the messages or bases differ in them.
void find_messages(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                   const std::filesystem::path& trainer);

}  // namespace bitrift::campaign
