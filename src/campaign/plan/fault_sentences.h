// The faults that a campaign draws and what its rates say about them, as sentences of a report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "design/campaign_spec.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// The sentences of one campaign.
struct FaultSentences : design::Sentences {
  /// By arm: which replicas load the altered file if not all do; else "".
  std::map<std::string, std::string> scopes;
};

/// rounds, rows: they give the sizes of the strata; sizes that they do not give are not named.
[[nodiscard]] FaultSentences fault_sentences(const design::CampaignSpec& spec,
                                             const std::vector<record::Round>& rounds,
                                             const std::vector<record::TrialRecord>& rows);

[[nodiscard]] record::Json to_json(const FaultSentences& sentences);

}  // namespace bitrift::campaign
