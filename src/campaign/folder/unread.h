// Which tensors of a base no fault is drawn from, because the script does not load them.
#pragma once

#include <filesystem>
#include <vector>

#include "campaign/launch/launch.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"

namespace bitrift::campaign {

/// Whether a campaign looks for them: a script loads the altered files, and reader checks are on.
[[nodiscard]] bool looks_for_unread(const design::CampaignSpec& spec);

/// Lets the script of every arm that resumes from this file load it with altered tensors, and returns the
/// tensors that changed nothing in some arm, sorted. If an arm reads no tensor of a role, this role is left
/// to its reader canary. file: index into spec.files; base: where it is. Throws Error(bad_input) with the
/// script's exception.
[[nodiscard]] std::vector<record::UnreadTensor> find_unread(const design::CampaignSpec& spec,
                                                            std::size_t file,
                                                            const std::filesystem::path& base,
                                                            const Launch& launch,
                                                            const std::filesystem::path& log);

[[nodiscard]] record::Json to_json(const std::vector<record::UnreadTensor>& unread);
/// Fills in spec.files from what campaign.json holds of its bases, by stem.
void take_unread(design::CampaignSpec& spec, const record::Json& bases);

}  // namespace bitrift::campaign
