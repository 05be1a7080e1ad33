// By which rule rows are judged.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/metric.h"
#include "spec/campaign_spec.h"

namespace bitrift::analyze {

/// docs/outcomes.md has both.
enum class Rule {
  limits = 1,     ///< normal-theory limits of each metric; for comparison with old results
  conformal = 2,  ///< rank among the clean runs, and worse than the own golden run
};

struct Judging {
  record::Judge judge = record::Judge::worst;
  std::vector<record::Metric> metrics = {record::Metric::test_accuracy, record::Metric::test_capped_loss};
  double level = 0.01;                 ///< how often a clean run may be called SDC
  std::optional<std::size_t> horizon;  ///< judged at this evaluation, the first being 1; absent: the last
  Rule rule = Rule::conformal;
  /// By arm, where ranks fail; empty in other campaigns.
  std::map<std::string, record::RecoverySpec> recoveries = {};
  bool links_alter = false;  ///< messages, so that there are record::LinkCanary
  bool links_fail = false;   ///< so that there are record::FailedLinkCanary
  [[nodiscard]] bool ranks_fail() const noexcept { return !recoveries.empty(); }
};

/// As the campaign asks.
[[nodiscard]] Judging judging_of(const record::CampaignSpec& spec);

}  // namespace bitrift::analyze
