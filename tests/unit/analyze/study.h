// A campaign's rows made by hand, for the tests of summaries.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "analyze/summary.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::testing {

inline design::CampaignSpec spec_of(const std::vector<std::string>& arms) {
  design::CampaignSpec spec;
  spec.name = "hand";
  spec.seed = 42;
  for (const std::string& arm : arms) spec.arms.push_back({arm, {}});
  spec.strata.edit<design::BitStrata>().roles = {"weight", "bias"};
  spec.strata.edit<design::BitStrata>().fields = {"sign", "exponent"};
  spec.trials_per_stratum = 10;
  return spec;
}

/// `masked`, `sdc` and `crash` trials of one stratum, in this order of draws.
inline void add_trials(std::vector<record::TrialRecord>& rows, const std::string& arm,
                       const std::string& stratum, std::uint64_t bits, int masked, int sdc, int crash) {
  for (int i = 0; i < masked + sdc + crash; ++i) {
    const bool golden = i < masked;
    record::TrialRecord row =
        finished(record::TrialKind::trial, arm, stratum, static_cast<std::uint64_t>(i),
                 {{evaluation(1, 0.1, 0.97, 0.2, golden ? 0.95 : 0.1)}}, golden ? "golden" : "other");
    if (i >= masked + sdc) row.result->status = record::RunStatus::nonfinite;
    row.stratum_bits = bits;
    rows.push_back(row);
  }
}

inline std::vector<record::TrialRecord> one_arm() {
  std::vector<record::TrialRecord> rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 1000, 5, 4, 1);
  add_trials(rows, "serial", "bias.sign", 100, 10, 0, 0);
  add_trials(rows, "serial", "weight.exponent", 8000, 2, 3, 5);
  add_trials(rows, "serial", "bias.exponent", 800, 8, 1, 1);
  return rows;
}

inline const Group& group(const Summary& summary, const std::map<std::string, std::string>& key) {
  for (const Group& candidate : summary.groups) {
    if (candidate.key == key) return candidate;
  }
  throw std::logic_error("no such group");
}

}  // namespace bitrift::analyze::testing
