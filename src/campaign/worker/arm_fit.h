// Checks whether the arms of a campaign fit its bases, before anything is created.
#pragma once

#include <filesystem>

#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// Checks every base.checkpoint and every arm against it; for arms with pipeline stages, `bitrift-train
/// describe` says whether the model can be cut that way. Does nothing for campaigns with another runner.
/// source: of the spec, for messages; trainer: see find_trainer(). Throws Error(bad_input) when bitrift-train
/// did not write a checkpoint, a batch cannot be split, or a model has fewer layers than an arm has stages.
void check_arms_fit(const design::CampaignSpec& spec, const std::filesystem::path& source,
                    const std::filesystem::path& trainer);

}  // namespace bitrift::campaign
