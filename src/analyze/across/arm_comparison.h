// Whether one arm ends otherwise than another under the same faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/rates/comparison_verdict.h"
#include "analyze/rates/paired.h"
#include "analyze/verdict/trust.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::analyze {

struct ComparisonOptions {
  std::vector<std::string> arms;  ///< to compare; empty: all. The first one given is compared with the others
  std::vector<record::OutcomeClass> outcomes;  ///< empty: SDC and crash
  double margin = 0.01;                        ///< differences inside of +-margin are called equivalent
};

/// One outcome of two arms.
struct ComparedPair {
  std::string first, second;
  record::OutcomeClass outcome = record::OutcomeClass::sdc;
  double first_rate = 0, second_rate = 0;  ///< weighted, over the draws that both have
  double difference = 0;                   ///< second_rate - first_rate; inside the interval
  /// By one limit, that of the first arm. The interval and p include what it leaves open.
  PairedDifference paired;
  double adjusted_p = 1;  ///< paired.p after Holm, over all that are compared
  double share_seen = 1;  ///< of the bits, in strata that have a pair; the interval covers the rest
  ComparisonVerdict verdict = ComparisonVerdict::open;
};

struct ArmComparison {
  double confidence = 0;  ///< of every interval alone; 1 - confidence bounds any wrong `differ`
  double margin = 0;
  std::vector<ComparedPair> pairs;
  std::vector<std::string> limits;  ///< by which SDCs were counted, a sentence for each two arms
};

/// trust: of the same rows. Pairs the trials of two arms by stratum and draw: they hold the same fault.
/// `differ`: the adjusted p is at most 1 - confidence, whatever the number of pairs and of looks.
/// `equivalent`: else, and the interval lies inside
/// +-margin. Throws as summarize() does, and Error(bad_input) on an unknown arm, fewer than two arms, arms of
/// different bases, or a margin outside (0, 1).
[[nodiscard]] ArmComparison compare_arms(const std::vector<record::TrialRecord>& rows,
                                         const design::CampaignSpec& spec, const Trust& trust,
                                         const std::vector<record::Round>& rounds,
                                         const ComparisonOptions& options);

/// A block for each pair: the counts, the difference with its interval, and the answer in one sentence.
[[nodiscard]] std::string text(const ArmComparison& comparison);
/// Schema "bitrift/comparison/1" (docs/statistics.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const ArmComparison& comparison);

}  // namespace bitrift::analyze
