// The audit of a campaign's script: whether its resume equals an uninterrupted training.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "campaign/launch/launch.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"

namespace bitrift::campaign {

/// Audits what each arm starts, arms that start the same once. {"schema": "bitrift/campaign-audit/1", "arms":
/// {NAME: findings}}, the findings as `python -m bitrift audit resume --json` writes them (docs/audit.md).
/// say: is told what happens next. Throws Error(bad_input) if the script cannot be audited, and Interrupted.
[[nodiscard]] record::Json audit_resumes(const design::CampaignSpec& spec, const Launch& launch,
                                         const std::filesystem::path& log,
                                         const std::function<void(const std::string&)>& say);

/// A line for each group of arms that were audited together: whether their resume is one. Throws
/// Error(bad_file) unless `audit` is what audit_resumes() returned.
[[nodiscard]] std::vector<std::string> audit_lines(const record::Json& audit);

}  // namespace bitrift::campaign
