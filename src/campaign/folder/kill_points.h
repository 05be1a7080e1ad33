// How many points each phase of a training has in which a rank may fail.
#pragma once

#include <filesystem>
#include <optional>

#include "campaign/folder/folder.h"
#include "record/json/json.h"
#include "spec/campaign_spec.h"

namespace bitrift::campaign {

/// Fills in strata.process.points of a campaign in which ranks fail: those of the folder where its campaign
/// has the same bases and strategy, else what `bitrift-train describe` says. Does nothing for others. source:
/// of the spec, for messages; trainer: see find_trainer(). Throws Error(bad_input) when the strata do not fit
/// the points or bases differ in them, Error(unsupported) when bitrift-train does not know kill points.
void find_kill_points(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                      const std::filesystem::path& trainer);

/// A key of what `bitrift-train describe --json` says, and the message, with a place for the program's name,
/// for a version that does not say it.
struct DescribedPart {
  const char* key;
  const char* missing;
};
/// Throws Error(bad_input) when the training cannot be described, Error(unsupported) without the key.
[[nodiscard]] record::Json described_part(const record::TrainingSpec& training,
                                          const record::Parallel& parallel,
                                          const std::filesystem::path& source,
                                          const std::filesystem::path& trainer, const DescribedPart& part);

/// The spec of the folder's campaign where it has the same bases and strategy, so that what bitrift-train
/// said of them holds here, too.
[[nodiscard]] std::optional<record::CampaignSpec> same_origin(const record::CampaignSpec& spec,
                                                              const Layout& layout);

}  // namespace bitrift::campaign
