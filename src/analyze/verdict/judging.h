// By which rule rows are judged.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "design/campaign_spec.h"
#include "record/metric.h"

namespace bitrift::analyze {

/// docs/outcomes.md has both.
enum class Rule {
  limits = 1,     ///< normal-theory limits of each metric; for comparison with old results
  conformal = 2,  ///< rank among the clean runs, and worse than the own golden run
};

struct Judging {
  design::Judge judge = design::Judge::worst;
  std::vector<record::Metric> metrics = {record::Metric::test_accuracy, record::Metric::test_capped_loss};
  double level = 0.01;                 ///< how often a clean run may be called SDC
  std::optional<std::size_t> horizon;  ///< judged at this evaluation, the first being 1; absent: the last
  Rule rule = Rule::conformal;
  design::Strata strata = {};  ///< what the campaign studies
  /// By arm; one that is not here has none.
  std::map<std::string, record::RecoverySpec> recoveries = {};
  [[nodiscard]] record::RecoverySpec recovery_of(const std::string& arm) const;
};

/// As the campaign asks.
[[nodiscard]] Judging judging_of(const design::CampaignSpec& spec);

}  // namespace bitrift::analyze
