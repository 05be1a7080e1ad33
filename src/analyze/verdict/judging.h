// The rule by which rows are judged.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "design/campaign_spec.h"
#include "record/metric.h"

namespace bitrift::analyze {

/// The number of the rule by which a trial is judged (docs/outcomes.md); stored in summaries.
inline constexpr int rule_version = 2;

struct Judging {
  design::Judge judge = design::Judge::worst;
  std::vector<record::Metric> metrics = record::default_metrics();
  double level = 0.01;                 ///< how often a clean run may be called SDC
  std::optional<std::size_t> horizon;  ///< judged at this evaluation, the first being 1; absent: the last
  design::Strata strata = {};          ///< the kind of fault that the campaign studies
  /// By arm; an arm that is missing here has no recovery.
  std::map<std::string, record::RecoverySpec> recoveries = {};
  [[nodiscard]] record::RecoverySpec recovery_of(const std::string& arm) const;
};

/// The rule that the campaign's spec chooses.
[[nodiscard]] Judging judging_of(const design::CampaignSpec& spec);

}  // namespace bitrift::analyze
