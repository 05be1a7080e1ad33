// Which metrics are outside, each judged alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/verdict/trust.h"
#include "analyze/views/dimension.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// Trials of one line that each metric alone would call SDC, at the horizon and at the stated level.
struct MetricsLine {
  std::map<std::string, std::string> key;  ///< as in a summary's groups
  std::uint64_t trials = 0;
  std::uint64_t crashes = 0;
  /// By metric; absent where rows lack it or it calibrates nothing.
  std::map<record::Metric, std::optional<std::uint64_t>> outside;
};

/// trust: of the same rows. Groups all `trial` rows by the dimensions of analyze/views/dimension.h, in the
/// order of metrics, whatever trust.judging.metrics names. Throws as study_view does.
[[nodiscard]] std::vector<MetricsLine> metrics_view(const std::vector<record::TrialRecord>& rows,
                                                    const design::CampaignSpec& spec, const Trust& trust,
                                                    const std::vector<std::string>& by);
[[nodiscard]] std::string metrics_table(const std::vector<MetricsLine>& lines,
                                        const std::vector<Dimension>& by);
[[nodiscard]] record::Json to_json(const std::vector<MetricsLine>& lines);

}  // namespace bitrift::analyze
