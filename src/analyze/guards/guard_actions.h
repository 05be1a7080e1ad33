// How guards that act changed the outcomes of a list of faults, and of clean runs (docs/detectors.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/guards/share.h"
#include "analyze/verdict/trust.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// Clean runs of an arm: no-flip runs of one data order are the same run, so the first represents all of
/// them. They point into `rows`.
[[nodiscard]] std::vector<const record::TrialRecord*> clean_rows(const std::vector<record::TrialRecord>& rows,
                                                                 const std::string& arm);

/// Everything is judged as in the arm without guards, by its clean runs.
struct GuardActions {
  /// By the outcome that the same fault has there, SDC or crash: masked here; and with the evaluations of the
  /// golden run there.
  std::map<record::OutcomeClass, Share> recovered = {}, exactly = {};
  std::map<std::string, Share> roles = {};  ///< SDC or crash there, and masked here, by the stratum's role
  Share harmed = {};                        ///< masked there, and not here
  Share clean_acted = {};                   ///< clean runs in which a guard acted
  Share clean_harmed = {};                  ///< clean runs that are an SDC or crash by the limits there
};

/// arm: whose guards act; plain: the same without guards.
[[nodiscard]] GuardActions guard_actions_of(const std::vector<record::TrialRecord>& rows,
                                            const design::CampaignSpec& spec, const Trust& trust,
                                            const std::string& arm, const std::string& plain);

/// {"recovered": {"SDC": {...}}, "exactly", "roles", "harmed", "clean_acted", "clean_harmed"}; each as
/// to_json(Share) with "count".
[[nodiscard]] record::Json to_json(const GuardActions& actions);

/// A line for each role and guard: what was recovered of the faults that do harm. named: with "ARM (ACTION)".
[[nodiscard]] std::vector<std::vector<std::string>> role_lines_of(
    const std::vector<std::pair<std::string, GuardActions>>& named);

/// A header, then a line for each. named: with "ARM (ACTION)".
[[nodiscard]] std::vector<std::vector<std::string>> lines_of(
    const std::vector<std::pair<std::string, GuardActions>>& named);

}  // namespace bitrift::analyze
