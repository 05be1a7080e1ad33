// How much of the time of runs in a storm is useful (docs/rank-failure.md, "Storms").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The trials of one arm and storm that ran to their end. The goodput of a trial is the median time of the
/// arm's controls, in which no rank fails, divided by the trial's: both from request to answer, and with the
/// starts of jobs that were launched again.
struct Goodput {
  std::string arm, storm;
  std::uint64_t trials = 0;
  double faults = 0;           ///< mean number in a trial, slow ranks included
  double median = 0, low = 0;  ///< of the goodput: quantile() at 0.5 and 0.05
};

/// trials: those of this arm and storm that count; rows: all of the campaign. Without a trial that ran to its
/// end, or without a control, `trials` is 0.
[[nodiscard]] Goodput goodput_of(const std::string& arm, const std::string& storm,
                                 const std::vector<const record::TrialRecord*>& trials,
                                 const std::vector<record::TrialRecord>& rows);

/// "" without a line.
[[nodiscard]] std::string goodput_table(const std::vector<Goodput>& lines);
/// [{"arm", "storm", "trials", "faults": {"mean"}, "goodput": {"median", "p5"}}]; null without a trial
[[nodiscard]] record::Json to_json(const std::vector<Goodput>& lines);

}  // namespace bitrift::analyze
