// What the scripts of a campaign do with the tensors of a base.
#pragma once

#include <filesystem>

#include "campaign/launch/launch.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"

namespace bitrift::campaign {

/// Whether a campaign asks: its runner is a script, and reader checks are on.
[[nodiscard]] bool asks_about_bases(const design::CampaignSpec& spec);

/// Lets the script of every arm that resumes from this file load it with altered tensors. {"unread":
/// [{"tensor", "role"}], "unused": [...]}: the tensors that changed nothing in some arm, sorted, and the
/// weights of weight_folders() on which the evaluation of some arm does not depend: those at both ends of the
/// first folder on which it does, and all of the folders before. If an arm
/// reads no tensor of a role, this role is left to its reader canary. "unread" is absent if faults alter no
/// file. file: index into spec.files; base: where it is. Throws Error(bad_input) with the script's exception.
[[nodiscard]] record::Json ask_about_base(const design::CampaignSpec& spec, std::size_t file,
                                          const std::filesystem::path& base, const Launch& launch,
                                          const std::filesystem::path& log);

/// Fills in spec.files from what campaign.json holds of its bases, by stem.
void take_answers(design::CampaignSpec& spec, const record::Json& bases);

}  // namespace bitrift::campaign
