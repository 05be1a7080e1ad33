// What the lives of killed trainings say about the interval between checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/rates/interval.h"
#include "record/json/json.h"
#include "study/policy/useful_time.h"
#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// One interval of a mode.
struct PolicyCell {
  std::int64_t interval = 0;  ///< steps
  double seconds = 0;         ///< of work between two saves
  std::uint64_t lives = 0;
  UsefulTime measured;
  analyze::Interval confidence = {};  ///< of measured.fraction: Student's t
  PolicyCosts costs = {};             ///< mean of the costs measured for this interval
  double predicted = 0;               ///< expected for kills at exponential times, with these costs
  double predicted_own = 0;           ///< the same, with mean_own_costs()
  ReplayedKills replayed = {};
  analyze::Interval difference = {-1, 1};  ///< of replayed.difference: Student's t
};

struct ModeSummary {
  record::SaveMode mode = record::SaveMode::sync;
  PolicyCosts costs;                        ///< of saves some seconds apart, measured first
  std::int64_t computed = 0;                ///< interval in steps that follows from them
  std::vector<PolicyCell> cells;            ///< ascending by interval
  std::optional<std::size_t> best = {};     ///< index of cells: the largest measured fraction
  std::optional<std::size_t> nearest = {};  ///< index of cells: the computed interval, or the nearest to it
};

/// Lines of the modes that have rows.
[[nodiscard]] std::vector<ModeSummary> summarize_policy(const StudySpec& spec,
                                                        const std::vector<StudyRow>& rows);
[[nodiscard]] record::Json policy_json(const std::vector<ModeSummary>& modes);
/// A table with a line for each interval; "" without modes.
[[nodiscard]] std::string policy_table(const StudySpec& spec, const std::vector<ModeSummary>& modes);

}  // namespace bitrift::study
