// Whether an arm ends differently from another: of the same campaign, under the same faults, or of another
// campaign.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyze/across/one_limit.h"
#include "analyze/across/sample.h"
#include "analyze/rates/comparison_verdict.h"
#include "analyze/verdict/trust.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::analyze {

struct ComparisonOptions {
  std::vector<std::string> arms;    ///< to compare; empty: all, see compare_arms() and compare_campaigns()
  std::vector<std::string> strata;  ///< to compare within one arm; see compare_strata()
  std::vector<record::OutcomeClass> outcomes;  ///< empty: SDC and crash
  double margin = 0.01;                        ///< differences inside of +-margin are called equivalent
};

/// One outcome of two arms, or of two strata within an arm.
struct ComparedArms {
  std::string first, second;
  record::OutcomeClass outcome = record::OutcomeClass::sdc;
  LimitedDifference difference;
  Interval interval;
  double p = 1;
  double adjusted_p = 1;  ///< after Holm, over all that are compared
  ComparisonVerdict verdict = ComparisonVerdict::open;
};

struct Comparison {
  std::string first, second;  ///< the names of two campaigns: their folders; "": one campaign
  double confidence = 0;      ///< of every interval alone; 1 - confidence bounds any wrong `differ`
  double margin = 0;
  std::vector<std::string> differences = {};  ///< of two campaigns, in words
  std::vector<std::string> limits = {};       ///< by which SDCs were counted, a sentence for each two arms
  std::vector<ComparedArms> pairs = {};
  std::string arm = {};                       ///< whose strata are compared; "": arms are
  std::shared_ptr<const Sample> sample = {};  ///< of one campaign, for the pairs; of two: they outlive this

  /// "serial", "serial of results/before".
  [[nodiscard]] std::string first_name(const ComparedArms& pair) const;
  [[nodiscard]] std::string second_name(const ComparedArms& pair) const;
};

/// Pairs the trials of two arms by stratum and draw: they hold the same fault. options.arms: the first one is
/// compared with the others; if empty, every two arms are compared. trust: of the same rows. `differ`: the
/// adjusted p is at most 1 - confidence, whatever the number of pairs and of looks. `equivalent`: else, and
/// the interval lies inside +-margin. Throws as summarize() does, and Error(bad_input) on an unknown arm,
/// fewer than two arms, arms of different bases, or a margin outside (0, 1).
[[nodiscard]] Comparison compare_arms(const std::vector<record::TrialRecord>& rows,
                                      const design::CampaignSpec& spec, const Trust& trust,
                                      const std::vector<record::Round>& rounds,
                                      const ComparisonOptions& options);

/// The same of strata within one arm: the first of options.strata is compared with each of the others. Trials
/// are paired by draw where both strata hold the same population in the same order (Kind::draws_of()).
/// options.arms: the arm, which may be left out where there is only one. Throws as compare_arms(), and
/// Error(bad_input) on an unknown stratum, fewer than two, or a campaign whose numbers of draws depend on
/// outcomes.
[[nodiscard]] Comparison compare_strata(const std::vector<record::TrialRecord>& rows,
                                        const design::CampaignSpec& spec, const Trust& trust,
                                        const std::vector<record::Round>& rounds,
                                        const ComparisonOptions& options);

/// options.arms: none (every arm that both have), or one of `first` and one of `second`. Verdicts as in
/// compare_arms(). The result refers to the samples. Throws Error(bad_input) as refuse_other_meaning() does,
/// and on unknown arms, no common arm, or a margin outside (0, 1).
[[nodiscard]] Comparison compare_campaigns(const Sample& first, const std::string& first_name,
                                           const Sample& second, const std::string& second_name,
                                           const ComparisonOptions& options);

/// What differs between two campaigns, then a block for each pair: the counts, the difference with its
/// interval, and the answer in one sentence.
[[nodiscard]] std::string text(const Comparison& comparison);
/// Schema "bitrift/comparison/1" (docs/statistics.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const Comparison& comparison);

}  // namespace bitrift::analyze
