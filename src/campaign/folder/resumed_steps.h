// How far the trainings had progressed from which the arms of a campaign resume.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "campaign/folder/folder.h"

namespace bitrift::campaign {

/// Optimizer steps after the base of each arm, by arm. Arms are missing whose base is not in the folder or
/// does not say it (progress/step). Throws as ckpt::Reader does.
[[nodiscard]] std::map<std::string, std::int64_t> resumed_steps(const Layout& layout,
                                                                const design::CampaignSpec& spec);

}  // namespace bitrift::campaign
