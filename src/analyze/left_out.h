// Tensors that the strata ask for and that no fault is drawn from, because the script does not load them.
#pragma once

#include <string>
#include <vector>

#include "spec/campaign_spec.h"

namespace bitrift::analyze {

/// Sorted, each once: what is known of the bases (BaseFile::unread), of the tensors and roles that the strata
/// choose. A model's layers are not looked at.
[[nodiscard]] std::vector<std::string> left_out(const record::CampaignSpec& spec);

}  // namespace bitrift::analyze
