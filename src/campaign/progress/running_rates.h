// The rates of a running campaign, kept up to date row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyze/order.h"
#include "analyze/verdict/classify.h"
#include "design/campaign_spec.h"
#include "record/outcome.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// Counts outcomes as the summary does (docs/statistics.md): for each stratum and arm, the rows before the
/// first draw without a row. A row costs one classification, however many came before. The rates of a line
/// are recomputed when its number of trials has grown by a fiftieth, so the cost is O(1) a row
/// (docs/statistics.md, "Valid at every look").
class RunningRates {
 public:
  /// spec must outlive this. controls: the reference for rows, by arm.
  RunningRates(const design::CampaignSpec& spec, std::map<std::string, analyze::ArmControls> controls);

  /// The draws: all rounds so far. Without it there is one round, as in the spec.
  void set_rounds(std::vector<record::Round> rounds);
  /// Adds a row; rows that are not trials, and those that the analysis will refuse, are left out.
  void add(const record::TrialRecord& row);
  /// Removes the row of a trial; does nothing if it does not exist.
  void remove(const record::TrialId& id);

  /// Trials of an arm that count.
  [[nodiscard]] std::size_t trials(const std::string& arm) const;
  /// One line for each arm (of several fault models, which are not parts of one population: each arm and
  /// model) that has trials which count: "serial: 120 trials: masked 71.0 % (59.8 to 80.6), SDC ..., crash
  /// ..." with the intervals that hold at every look, and how many strata have no trial yet. At most eight
  /// lines, then the number of the others. The arms (and models) without a trial come last. None before the
  /// first trial.
  [[nodiscard]] std::vector<std::string> lines();

 private:
  struct Cell {
    std::uint64_t bits = 0;
    std::vector<std::optional<record::Reason>> seen;  // by draw
    std::size_t counted = 0;                          // draws without a gap before them
  };
  struct Line {
    std::string text;
    std::uint64_t trials = 0;  // the number of trials for which it was computed
  };
  [[nodiscard]] std::uint64_t trials(const std::string& arm, const std::string& stratum) const;
  [[nodiscard]] std::string text_of(const std::string& arm, const std::string& stratum,
                                    std::uint64_t trials) const;
  void add_line(const std::string& arm, const std::string& stratum, std::vector<std::string>& lines);

  const design::CampaignSpec& spec_;
  analyze::Judging judging_;
  std::map<std::string, analyze::ArmControls> controls_;
  std::map<std::string, std::map<std::string, Cell>> cells_;  // by arm, then stratum
  std::vector<record::Round> rounds_;
  std::map<std::pair<std::string, std::string>, Line> lines_;  // by arm and stratum ("": all)
};

}  // namespace bitrift::campaign
