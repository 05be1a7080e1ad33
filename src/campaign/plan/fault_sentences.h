// What faults a campaign draws and what its rates say of them, as sentences of a report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "record/round.h"
#include "record/trial.h"
#include "spec/campaign_spec.h"

namespace bitrift::campaign {

/// Of one campaign.
struct FaultSentences {
  /// A fault as the subject of a sentence, with the population from which it is drawn. The key is the name of
  /// a fault model where strata are models, else "". A single model is under "" too.
  std::map<std::string, std::string> faults;
  /// By arm: who loads the altered file where not all replicas do; else "".
  std::map<std::string, std::string> scopes;
  std::string rates;                ///< what a rate is the rate of
  std::vector<std::string> limits;  ///< what the rates say nothing about
  std::string no_map;               ///< why there are no rates by layer and bit; "": there are
  /// Whether a fault changes numbers whose old and new value a row holds.
  bool numbers = true;
};

/// rounds, rows: they know how large the strata are; where they do not, no size is named.
[[nodiscard]] FaultSentences fault_sentences(const record::CampaignSpec& spec,
                                             const std::vector<record::Round>& rounds,
                                             const std::vector<record::TrialRecord>& rows);

[[nodiscard]] record::Json to_json(const FaultSentences& sentences);

}  // namespace bitrift::campaign
