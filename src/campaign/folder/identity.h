// The contents of campaign.json: the spec, the specs before it, and where they come from (docs/campaign.md,
// "The folder").
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "campaign/plan/drills.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/json/json_diff.h"

namespace bitrift::campaign {

/// The identity of a new campaign; shards: 0 when it is undivided.
[[nodiscard]] record::Json new_identity(const design::CampaignSpec& spec, const Drills& drills,
                                        const std::vector<std::string>& command, int shards);
/// Throws Error(bad_file) when it is of a schema that this version does not read.
[[nodiscard]] record::Json read_identity(const std::filesystem::path& path);
/// The earlier specs of an extended campaign, the first one first. Throws Error(bad_file).
[[nodiscard]] std::vector<design::CampaignSpec> earlier_specs(const record::Json& identity);
/// Replaces the spec, and keeps the one before it, with this start's provenance.
void add_extension(record::Json& identity, const design::CampaignSpec& spec,
                   const std::vector<std::string>& command);

/// "seed was 1, is now 2".
[[nodiscard]] std::string change_text(const JsonDifference& difference);

}  // namespace bitrift::campaign
