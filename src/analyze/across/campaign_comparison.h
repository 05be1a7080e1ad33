// Whether the arms of one campaign end otherwise than those of another.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analyze/across/arm_comparison.h"
#include "analyze/across/one_limit.h"
#include "analyze/across/sample.h"
#include "record/json/json.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// One outcome of an arm of each campaign.
struct ComparedCampaigns {
  std::string first, second;  ///< arms
  record::OutcomeClass outcome = record::OutcomeClass::sdc;
  LimitedDifference difference;
  Interval interval;
  double p = 1;
  double adjusted_p = 1;  ///< after Holm, over all that are compared
  ComparisonVerdict verdict = ComparisonVerdict::open;
};

struct CampaignComparison {
  std::string first, second;  ///< how the campaigns are called: their folders
  double confidence = 0;      ///< of every interval alone, from the first campaign
  double margin = 0;
  std::vector<std::string> differences;  ///< of the campaigns, in words
  std::vector<std::string> limits;       ///< by which SDCs were counted, a sentence for each pair of arms
  std::vector<ComparedCampaigns> lines;
};

/// options.arms: none (every arm that both have), or one of `first` and one of `second`. Verdicts as in
/// compare_arms(). The result refers to the samples. Throws Error(bad_input) as refuse_other_meaning() does,
/// and on unknown arms, no common arm, or a margin outside (0, 1).
[[nodiscard]] CampaignComparison compare_campaigns(const Sample& first, const std::string& first_name,
                                                   const Sample& second, const std::string& second_name,
                                                   const ComparisonOptions& options);

/// What differs between the campaigns, then a block for each line as in text(ArmComparison).
[[nodiscard]] std::string text(const CampaignComparison& comparison);
/// Schema "bitrift/comparison/1" (docs/statistics.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const CampaignComparison& comparison);

}  // namespace bitrift::analyze
