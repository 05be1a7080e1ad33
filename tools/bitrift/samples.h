// Campaigns and baselines as samples, for the commands that compare two of them.
#pragma once

#include <filesystem>
#include <optional>

#include "analyze/across/sample.h"

namespace bitrift::cli {

/// A campaign's folder. nullopt when its canaries or clean runs misbehave: stderr then says why. Throws as
/// campaign::read_stored_campaign, campaign::read_journal and analyze::sample_of do.
[[nodiscard]] std::optional<analyze::Sample> read_campaign_sample(const std::filesystem::path& folder);

/// A file that `bitrift gate --update` wrote, a campaign's folder, or the summary.json in one. Throws
/// Error(not_found | bad_file) that names it.
[[nodiscard]] std::optional<analyze::Sample> read_baseline(const std::filesystem::path& path);

}  // namespace bitrift::cli
